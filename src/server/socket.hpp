// socket.hpp: a connected socket, plain or with TLS on it, as one type: what Beast compiles for
// streams is compiled once. The load generator of bench/serve uses it too. Boost's headers compile
// slowly, so include it only where sockets are read and written.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <utility>

namespace attacca::server {

/// One of Asio's streams. Not thread-safe.
class Socket {
 public:
  using Tcp = boost::asio::ip::tcp::socket;
  using Tls = boost::asio::ssl::stream<Tcp&>;
  using executor_type = Tcp::executor_type;

  explicit Socket(Tcp tcp) : tcp_(std::move(tcp)) {}
  Socket(const Socket&) = delete;

  executor_type get_executor() { return tcp_.get_executor(); }
  Tcp& tcp() { return tcp_; }
  /// Null without TLS.
  Tls* tls() { return tls_.get(); }
  /// Everything from now on is encrypted, a handshake first. REQUIRES: nothing was read or written.
  void use_tls(std::shared_ptr<boost::asio::ssl::context> context) {
    context_ = std::move(context);
    tls_ = std::make_unique<Tls>(tcp_, *context_);
  }
  /// To answer a client that does not speak it. REQUIRES: the handshake has failed.
  void drop_tls() { tls_.reset(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return tcp_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return tcp_.async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  Tcp tcp_;
  std::shared_ptr<boost::asio::ssl::context> context_;  // the one it began with
  std::unique_ptr<Tls> tls_;
};

}  // namespace attacca::server
