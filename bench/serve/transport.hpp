// transport.hpp: how the load generator reaches its server and the clock. http_client.hpp has the
// real one; tests have one with a server and a clock of their own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace bench::serve {

using Time = std::chrono::steady_clock::time_point;

struct HttpCall {
  std::string method;  // "GET"
  std::string path;
  std::string body = {};
};

/// Takes one reply as it comes: its status once, any number of bodies, its end once. A call that
/// never reached the server has only an end.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void on_status(int status) = 0;
  virtual void on_body(std::string_view bytes) = 0;
  /// `problem` says why the reply is not whole. It is empty if the reply is.
  virtual void on_end(const std::string& problem) = 0;
};

/// All calls of sinks and timers come from within `run`, one at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Time now() const = 0;
  /// Calls `work` at that time, or as soon as possible after it; never before this call returns.
  virtual void at(Time time, std::function<void()> work) = 0;
  virtual void send(HttpCall call, std::shared_ptr<ReplySink> sink) = 0;
  /// Returns when no call and no timer is left.
  virtual void run() = 0;
};

}  // namespace bench::serve
