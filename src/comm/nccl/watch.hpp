// watch.hpp: a thread of each rank that notices when another has failed or does not come, for
// kernels that wait on the GPU without a deadline.
#pragma once

#include <attacca/ranks.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/group.hpp"

namespace attacca::comm {

/// The threads of all ranks meet a few times a second and compare how many exchanges each rank has
/// launched, and how many its device has ended. Where a rank has launched some and ends none for
/// the deadline, it breaks the program.
class Watch {
 public:
  /// A collective call. `ended` is counted by the device, and must outlive the watch. `stop` ends
  /// the waits of this rank's kernels. The thread calls it once the program is broken.
  Watch(GroupImpl& control, std::uint64_t& ended, std::function<void()> stop);
  /// Tells the others that this rank leaves, and then all watches end.
  ~Watch();
  Watch(const Watch&) = delete;

  void add_launched(std::uint64_t exchanges) { launched_ += exchanges; }
  void take_launched_back(std::uint64_t exchanges) { launched_ -= exchanges; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Beat {
    std::uint64_t launched, ended;
    std::uint64_t is_leaving;
  };
  /// What this thread has seen of a rank.
  struct Seen {
    std::uint64_t ended = 0;
    Clock::time_point waits_since = Clock::now();  // for the next to end
  };

  void run();
  /// False if the watch is over.
  bool meet();
  bool wait_for_turn();
  /// Whether a rank has ended none of its exchanges for the deadline.
  bool is_overdue(const std::vector<Beat>& beats);
  std::string story_of(const std::vector<Beat>& beats) const;

  const Group watchers_;
  std::uint64_t& ended_;
  const std::function<void()> stop_;
  std::atomic<std::uint64_t> launched_{0};
  std::vector<Seen> seen_;  // by rank
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace attacca::comm
