// http.hpp: an HTTP request, its reply and the exchange between both, without sockets. Handlers of
// requests know only this, so tests call them with an exchange of their own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace attacca::server {

/// Why no endpoint may see a request: it is no HTTP, or too large.
struct HttpRefusal {
  int status = 0;  // 0: it is fine
  std::string message = {};
};

struct HttpRequest {
  std::string method;         // "GET"
  std::string path;           // without the query
  std::string authorization;  // that header's value; empty if there is none
  std::string body;
  std::string origin = {};   // the page that asks; empty if the client is no browser
  std::string id = {};       // the header X-Request-Id; empty if there is none
  HttpRefusal refusal = {};  // if it has one, the rest is what was read until then
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HttpHeaders headers = {};  // besides type, length and connection
};

/// How many tokens a request had. The log shows it.
struct TokenCounts {
  std::size_t prompt;
  std::size_t cached;  // of the prompt
  std::size_t generated;
};

/// What went to a client.
struct Sent {
  std::size_t bytes;         // header included
  bool is_complete;          // all of the reply
  bool is_given_up = false;  // if it is not: by the server, and the client had not left
};

/// Takes the reply to one request: `send` once, or `begin`, any number of `write` and `end`. Any
/// thread may call it. Calls return at once and take effect in their order. What a slow client has
/// not read yet is kept. If the last copy goes before the reply is complete, the connection closes.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual void send(HttpReply reply) = 0;
  /// Begins a reply whose length is not known. `head.body` is its first piece.
  virtual void begin(HttpReply head) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;
  /// `work` runs on the server's thread if the client leaves before the reply is complete.
  virtual void on_leave(std::function<void()> work) = 0;
  /// `work` runs on the server's thread when the last byte of the reply is given to the system, or
  /// the connection closes before; it is dropped if the server ends first. REQUIRES: the server's
  /// thread calls it, before the reply. Only the log does, so wrappers do not pass it on.
  virtual void on_sent(std::function<void(const Sent& sent)>) {}
  /// Comes before the reply is complete; if it is given up, before the last copy goes.
  virtual void note(const TokenCounts&) {}
};

using ExchangePtr = std::shared_ptr<Exchange>;

/// Called on the server's thread, which must not be blocked. Must not throw.
using HttpHandler = std::function<void(HttpRequest, ExchangePtr)>;

}  // namespace attacca::server
