// step_log.hpp: keeps records of the last steps in memory, counts all steps and, if a file is
// given, writes each record to it. Times come from step_clock.hpp.
#pragma once

#include <array>
#include <attacca/llm.hpp>
#include <cstdint>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace attacca::engine {

class StepLog {
 public:
  static constexpr std::size_t kKept = 4096;

  using OnStep = std::function<void(const llm::StepRecord& record)>;

  /// `path`: empty for no file. Throws BadArgument if it cannot be written.
  explicit StepLog(const std::string& path, OnStep on_step = {});

  /// Numbers the record, adds it and calls `on_step`.
  void add(llm::StepRecord record);
  /// Throws DeviceError if the records could not be written to the file.
  void flush();

  /// The last ones, oldest first. Any thread may call this, at any time.
  std::vector<llm::StepRecord> records(std::size_t most = kKept) const;
  const std::array<std::uint64_t, llm::kStepModes>& by_mode() const { return by_mode_; }
  const std::array<std::uint64_t, llm::kMisses>& by_miss() const { return by_miss_; }

 private:
  std::string path_;
  std::ofstream file_;
  OnStep on_step_;
  mutable std::mutex mutex_;           // of ring_ and steps_
  std::vector<llm::StepRecord> ring_;  // step n is at (n - 1) % kKept
  std::uint64_t steps_ = 0;
  std::array<std::uint64_t, llm::kStepModes> by_mode_ = {};
  std::array<std::uint64_t, llm::kMisses> by_miss_ = {};
};

}  // namespace attacca::engine
