// plan_line.hpp: the line on which rank 0 tells the other ranks what the next step computes. It has
// a group of its own, because a plan is sent while the step before it still exchanges data.
#pragma once

#include <attacca/ranks.hpp>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "schedule/host.hpp"

namespace attacca::engine {

/// A rank waits for the next plan no longer than the group's deadline. So while there is nothing to
/// compute, a thread of rank 0 says so in time. Destroying rank 0's line ends the others' loops.
class PlanLine {
 public:
  /// A collective call. `lines`: the size of a plan.
  PlanLine(const Group& ranks, std::size_t lines);
  ~PlanLine();
  PlanLine(const PlanLine&) = delete;

  /// Sends a plan. Throws RanksBroken. REQUIRES: rank 0.
  void lead(std::span<const schedule::Line> plan);
  /// Waits for the next plan. False: rank 0 has ended. REQUIRES: a rank other than 0.
  bool follow(std::span<schedule::Line> plan);

  void give_up(const std::string& reason) noexcept { group_.give_up(reason); }
  /// Whether an exchange has failed; then all will.
  bool is_broken() const noexcept;

 private:
  enum class News : std::uint32_t { idle, step, end };
  void send(News news);
  void send_idle_news();

  Group group_;
  std::vector<schedule::Line> message_;  // the news, then the plan
  std::mutex mutex_;                     // of sending
  std::condition_variable changed_;
  std::uint64_t sent_ = 0;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace attacca::engine
