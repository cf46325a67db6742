// hogs.hpp: threads that keep cores busy, to see what becomes of a figure when others want the
// machine.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace bench {

/// Burns `count` cores while it lives.
class Hogs {
 public:
  explicit Hogs(unsigned count) {
    for (unsigned at = 0; at < count; ++at)
      threads_.emplace_back([this] {
        while (!is_over_.load(std::memory_order_relaxed)) {
        }
      });
  }
  Hogs(const Hogs&) = delete;
  ~Hogs() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace bench
