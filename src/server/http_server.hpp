// http_server.hpp: an HTTP/1.1 server on one thread: keep-alive, pipelining in order, streams,
// limits and an orderly end. It knows nothing of models. Only http_server.cpp and connection.cpp
// include Boost, whose headers take half a minute to compile.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http.hpp"

namespace attacca::server {

struct HttpOptions {
  std::string host = "127.0.0.1";    // an address or a name
  std::uint16_t port = 8000;         // 0: any that is free
  std::string tls_certificate = {};  // files in PEM: the server's certificate and those that lead
  std::string tls_key = {};          // to a root, and its key; empty: no TLS
  std::size_t most_body_bytes = 8 << 20;
  std::size_t most_header_bytes = 32 << 10;
  std::size_t most_connections = 4096;      // further ones wait in the system's queue
  std::chrono::seconds idle{75};            // a connection without a request
  std::chrono::seconds header{20};          // from its first byte to its end
  std::chrono::seconds body{60};            // from the end of the header to that of the body
  std::chrono::seconds stalled_write{120};  // a client that reads nothing of its reply
  std::chrono::milliseconds drain{30'000};  // from the first signal to the end
  std::chrono::milliseconds linger{2'000};  // for what a refused client still sends
};

/// Takes its port at construction, connections from `listen` on, and answers while `run` runs. A
/// client that closes its side of the connection has left: replies that are not complete are given
/// up, and `Exchange::on_leave` tells their handlers.
class HttpServer {
 public:
  /// Throws Error if it cannot have the port, or if the files of TLS cannot be used.
  explicit HttpServer(const HttpOptions& options);
  ~HttpServer();

  // Any thread may ask.
  std::uint16_t port() const;
  std::size_t connections() const;

  /// Connections that come from now on are answered once `run` runs. Before, they are refused.
  /// Throws Error if another program has begun to listen on the port. REQUIRES: it is called once,
  /// before `run`.
  void listen(HttpHandler handler);
  /// Reads the files of TLS again. Connections that are open keep what they have. Throws Error, and
  /// keeps the old ones, if a file cannot be used. REQUIRES: there are such files; called before
  /// `run`, or by `on_reload`.
  void reload_certificates();
  /// Answers requests until SIGINT, SIGTERM or `stop`. Then calls `on_drain`, takes no more
  /// connections, completes the replies that have begun, for at most `drain`, and returns. A second
  /// signal ends it at once. SIGHUP calls `on_reload`. REQUIRES: it is called once.
  void run(const std::function<void()>& on_drain, const std::function<void()>& on_reload = {});
  /// Any thread may call it, also before `run`.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca::server
