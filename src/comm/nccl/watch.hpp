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
#include <thread>

#include "comm/group.hpp"

namespace attacca::comm {

/// The threads of all ranks meet a few times a second and compare how many exchanges each rank has
/// launched. Where one is behind and stays there for the deadline, it breaks the program.
class Watch {
 public:
  /// A collective call. `stop` ends the waits of this rank's kernels. The thread calls it once the
  /// program is broken.
  Watch(GroupImpl& control, std::function<void()> stop);
  /// Tells the others that this rank leaves, and then all watches end.
  ~Watch();
  Watch(const Watch&) = delete;

  void add_launched(std::uint64_t exchanges) { launched_ += exchanges; }

 private:
  struct Beat {
    std::uint64_t launched;
    std::uint64_t is_leaving;
  };

  void run();
  /// False if the watch is over.
  bool meet();
  bool wait_for_turn();

  const Group watchers_;
  const std::function<void()> stop_;
  std::atomic<std::uint64_t> launched_{0};
  std::uint64_t fewest_ = 0;  // launched by a rank that is behind
  std::chrono::steady_clock::time_point behind_since_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace attacca::comm
