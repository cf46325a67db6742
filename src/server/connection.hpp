// connection.hpp: a connection as the server sees it, and what all connections share. Only
// connection.cpp and http_server.cpp include it: Boost's headers compile slowly.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>

#include "server/http.hpp"
#include "server/http_server.hpp"

namespace attacca::server {

/// It owns itself: it lives until its client has left and its last reply is done.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Gives up whatever is going on.
  virtual void close() = 0;
  /// Closes it if it has no request.
  virtual void close_if_idle() = 0;
  /// Closes it if its client has been silent for too long.
  virtual void close_if_late(std::chrono::steady_clock::time_point now) = 0;
};

/// It outlives the connections. All but the count belongs to the thread that runs `io`.
struct ConnectionContext {
  HttpOptions options;
  HttpHandler handler = {};
  std::shared_ptr<boost::asio::io_context> io;
  std::shared_ptr<boost::asio::ssl::context> tls = {};  // of new connections; null: none
  std::set<Connection*> connections = {};
  std::atomic<std::size_t> connection_count = 0;
  bool is_draining = false;  // every reply is its connection's last
  std::function<void()> on_last_connection = {};
};

void start_connection(boost::asio::ip::tcp::socket socket, ConnectionContext& shared);

}  // namespace attacca::server
