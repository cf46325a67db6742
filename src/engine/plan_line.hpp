// plan_line.hpp: the line on which rank 0 tells the other ranks what the next step computes. It has
// a group of its own, because a plan is sent while the step before it still exchanges data.
#pragma once

#include <attacca/ranks.hpp>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "schedule/host.hpp"

namespace attacca::engine {

/// A rank waits for the next plan no longer than the group's deadline. So while there is nothing to
/// compute, a thread of rank 0 says so in time and waits until all have heard it: a rank that has
/// ended or stands still is noticed without a request. Destroying rank 0's line ends the others'
/// loops.
class PlanLine {
 public:
  /// A collective call. `lines`: the size of a plan.
  PlanLine(const Group& ranks, std::size_t lines);
  ~PlanLine();
  PlanLine(const PlanLine&) = delete;

  /// Called once if an exchange fails while there is nothing to compute.
  using Tell = std::function<void(std::exception_ptr failure)>;
  /// REQUIRES: rank 0.
  void tell_of_failure(Tell tell);

  enum class News : std::uint32_t { idle, step, step_of_highest, loop, end };

  /// Sends a plan. `step`: step, or step_of_highest (see StepShape::samples_highest). Throws
  /// RanksBroken. REQUIRES: rank 0.
  void lead(News step, std::span<const schedule::Line> plan);
  /// Says that a loop on rank 0's device begins, which sends plans by itself. Returns when all
  /// others have heard it, and so have left the loop before. The line is silent until `end_loop`.
  void begin_loop();
  void end_loop();
  /// Waits for the next news other than `idle`. The plan is there with a step. `end`: rank 0 has
  /// ended. REQUIRES: a rank other than 0.
  News follow(std::span<schedule::Line> plan);

  void give_up(const std::string& reason) noexcept { group_.give_up(reason); }
  /// Throws RanksBroken if an exchange has failed.
  void check() const { group_.check(); }
  /// Whether an exchange has failed; then all will.
  bool is_broken() const noexcept;

 private:
  void send(News news);
  void send_idle_news();
  /// Waits until all ranks have heard it.
  void hear_idle_news();

  Group group_;
  std::vector<schedule::Line> message_;  // the news, then the plan
  std::mutex mutex_;                     // of sending
  std::condition_variable changed_;
  std::uint64_t sent_ = 0;
  Tell tell_;
  std::exception_ptr failure_;  // while there was nothing to compute
  bool is_ending_ = false;
  bool has_loop_ = false;  // it runs
  std::thread thread_;
};

/// Runs `work`; if it throws, the other ranks are told why. `ranks` is a Group, a PlanLine, or null
/// if there are no others.
template <class Ranks, class Work>
auto or_give_up(Ranks* ranks, Work work) {
  try {
    return work();
  } catch (const RanksBroken&) {
    throw;
  } catch (const std::exception& error) {
    if (ranks) ranks->give_up(error.what());
    throw;
  }
}

}  // namespace attacca::engine
