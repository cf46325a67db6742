// worker.hpp: a thread that parses and tokenizes, one request after the other. A prompt of a
// million characters takes long, and the thread of the connections must not wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace attacca::server {

class Worker {
 public:
  /// `name`: of the thread.
  explicit Worker(const char* name);
  /// Drops what has not begun.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// `work` must not throw. Any thread may call it.
  void post(std::function<void()> work);

 private:
  void run(const char* name);

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> queue_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace attacca::server
