// mask_worker.hpp: a thread that computes which tokens may come next in replies with a grammar. A
// mask can take milliseconds, and the driver must not wait for it: the other sequences go on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "driver/job.hpp"

namespace attacca::driver {

/// The driver's thread calls it. Its own thread starts with the first token.
class MaskWorker {
 public:
  MaskWorker() = default;
  /// Drops what has not begun.
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  struct Ready {
    JobPtr job;
    MaskPtr mask;            // null: there is none
    std::string error;       // the reason
    std::int32_t token = 0;  // after which it comes
    bool loops = false;      // tokens of plain characters lead back to it
    MaskSharing sharing = MaskSharing::own;
  };

  /// Whether masks were asked for and not taken.
  bool has_open() const { return open_ > 0; }
  /// Tells a job's grammar of one more token, and asks for the mask after it if it is wanted.
  /// REQUIRES: the job has a grammar, and waits for no other mask.
  void send(JobPtr job, std::int32_t token, bool wants_mask = true);
  /// Waits until all masks are there that were asked for, or until patience ends. False: none was.
  bool wait(std::chrono::microseconds patience);
  /// The masks that are there, each once.
  std::vector<Ready> take();

 private:
  struct Sent {
    JobPtr job;
    std::int32_t token;
    bool wants_mask;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable sent_or_over_, all_ready_;
  std::deque<Sent> sent_;
  std::vector<Ready> ready_;
  std::size_t open_ = 0;  // sent, and not taken; only the driver's thread changes it
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace attacca::driver
