// text_worker.hpp: a thread that turns tokens into text, looks for stop strings and delivers
// events, so that the driver does none of it. It takes the outcomes of steps in order.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "driver/inbox.hpp"
#include "driver/job.hpp"

namespace attacca::driver {

/// Thread-safe.
class TextWorker {
 public:
  /// Tells `inbox` of jobs that end by their text or by their receiver.
  explicit TextWorker(std::shared_ptr<Inbox> inbox);
  /// Delivers everything that was sent, then ends.
  ~TextWorker();

  void send(std::vector<Outcome> outcomes);
  /// Whether the caller runs inside a callback.
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void run();
  void take_in(Outcome& outcome);

  std::shared_ptr<Inbox> inbox_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Outcome> sent_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace attacca::driver
