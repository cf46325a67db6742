// step_log.hpp: what became of each step: the last ones in memory, all of them counted and, where
// a file is given, written down.
#pragma once

#include <array>
#include <attacca/llm.hpp>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace attacca::engine {

class StepLog {
 public:
  static constexpr std::size_t kKept = 4096;

  /// `path`: empty for no file. Throws BadArgument where it cannot be written.
  explicit StepLog(const std::string& path);

  /// Gives the record its number.
  void add(llm::StepRecord record);
  /// Throws DeviceError where the file did not take what was added.
  void flush();

  std::vector<llm::StepRecord> records() const;  // the last kKept, oldest first
  const std::array<std::uint64_t, llm::kStepModes>& by_mode() const { return by_mode_; }
  const std::array<std::uint64_t, llm::kMisses>& by_miss() const { return by_miss_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::vector<llm::StepRecord> ring_;  // step n is at (n - 1) % kKept
  std::uint64_t steps_ = 0;
  std::array<std::uint64_t, llm::kStepModes> by_mode_ = {};
  std::array<std::uint64_t, llm::kMisses> by_miss_ = {};
};

}  // namespace attacca::engine
