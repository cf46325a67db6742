// hog.hpp: threads that keep cores busy, to see what a server does when others want the machine.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace bench::serve {

/// Burns `count` cores while it lives.
class Hog {
 public:
  explicit Hog(unsigned count) {
    for (unsigned at = 0; at < count; ++at)
      threads_.emplace_back([this] {
        while (!is_over_.load(std::memory_order_relaxed)) {
        }
      });
  }
  Hog(const Hog&) = delete;
  ~Hog() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace bench::serve
