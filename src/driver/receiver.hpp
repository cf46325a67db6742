// receiver.hpp: the end of a request's way. A Receiver builds the reply from events and calls the
// request's callbacks. A Collector keeps the events of several jobs for one thread that waits for
// them.
#pragma once

#include <attacca/llm.hpp>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "driver/job.hpp"

namespace attacca::driver {

/// Not thread-safe.
class Receiver {
 public:
  Receiver(const llm::Request& request, std::size_t prompt_tokens);

  bool has_callbacks() const { return on_text_ || on_event_ || on_done_; }
  /// Adds an event to the reply and calls the callbacks, whose exceptions pass through. False: the
  /// request has ended, with this event or because `on_text` has had enough.
  bool take(llm::RequestEvent event);
  /// Ends the reply with an error, unless it has ended.
  void fail(const std::string& error);
  bool is_done() const { return is_done_; }
  llm::Reply& reply() { return reply_; }

 private:
  void end(llm::Finish finish, double seconds);

  std::function<bool(std::string_view)> on_text_;
  std::function<void(const llm::RequestEvent&)> on_event_;
  std::function<void(const llm::Reply&)> on_done_;
  llm::Reply reply_;
  bool is_done_ = false;
};

/// Thread-safe.
class Collector {
 public:
  struct Collected {
    std::size_t job = 0;
    llm::RequestEvent event;
    std::exception_ptr failure;
  };

  /// A sink for the events of a job, which come out with its number.
  static std::shared_ptr<Sink> sink_of(std::shared_ptr<Collector> collector, std::size_t job);
  void add(Collected collected);
  Collected next();  // waits

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Collected> events_;
};

}  // namespace attacca::driver
