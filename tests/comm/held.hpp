// held.hpp: lets a test hold calls of a fake library, as a real one waits for other ranks.
#pragma once

#include <condition_variable>
#include <mutex>

namespace attacca::test {

/// Calls of one kind, which do not return while they are held.
class Held {
 public:
  void hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  /// Waits until all that were held have ended.
  void release() {
    std::unique_lock lock(mutex_);
    is_held_ = false;
    changed_.notify_all();
    changed_.wait(lock, [&] { return waiting_ == 0; });
  }
  /// Waits until so many are held.
  void wait_for(int waiting) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_held_; });
    --waiting_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
  int waiting_ = 0;
};

}  // namespace attacca::test
