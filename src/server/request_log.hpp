// request_log.hpp: gives every request an id, which the reply's header X-Request-Id has too, and
// writes a line when the reply is sent or given up.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http.hpp"
#include "server/worker.hpp"

namespace attacca::server {

enum class LogFormat : std::uint8_t { none, text, json };

/// Thread-safe. The exchanges that it wraps own it together with whoever made it.
class RequestLog : public std::enable_shared_from_this<RequestLog> {
 public:
  /// `write` takes a line without its end, on a thread of its own, so that a reader of the log who
  /// pauses delays no reply. If thousands of lines wait, further ones are dropped and counted.
  RequestLog(LogFormat format, std::function<void(const std::string&)> write);
  /// Waits a second at most for lines that are not written yet.
  ~RequestLog();

  /// Passes a reply on with the request's id: the client's own if it sent one of letters, digits,
  /// '.', '_' and '-', at most 128 of them; else a new one.
  ExchangePtr wrap(ExchangePtr exchange, const HttpRequest& request);
  /// A line about the server itself.
  void say(const std::string& text);

 private:
  struct Facts;  // of a request that is over
  class Line;
  class LoggedExchange;

  std::string new_id();
  void add(const Facts& line);
  void post(std::string line);
  std::string text_of(const Facts& line) const;
  std::string line_of(const std::string& text) const;

  const LogFormat format_;
  const std::function<void(const std::string&)> write_;
  const std::string id_prefix_;
  std::atomic<std::uint64_t> requests_ = 0;
  std::atomic<std::size_t> waiting_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;
  Worker worker_{"attacca-log"};  // last: it uses all of the above
};

}  // namespace attacca::server
