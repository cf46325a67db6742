// worker.cpp: a queue with a lock, and the thread that empties it.
#include "server/worker.hpp"

#include <utility>

#include "core/thread_name.hpp"

namespace attacca::server {

Worker::Worker(const char* name) : thread_([this, name] { run(name); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

void Worker::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  arrived_.notify_one();
}

void Worker::run(const char* name) {
  name_this_thread(name);
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [&] { return is_over_ || !queue_.empty(); });
      if (is_over_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace attacca::server
