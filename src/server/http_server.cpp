// http_server.cpp: accepts connections, closes silent ones and ends in order. connection.cpp has
// what goes on in a connection.
#include "server/http_server.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <openssl/x509err.h>

#include <csignal>
#include <utility>
#include <vector>

#include "server/connection.hpp"

namespace attacca::server {

namespace {

namespace net = boost::asio;
using tcp = net::ip::tcp;
using Clock = std::chrono::steady_clock;
using boost::system::error_code;

tcp::endpoint endpoint_of(net::io_context& io, const HttpOptions& options) {
  error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty())
    throw Error(fmt::format("--host {}: {}", options.host, error.message()));
  return found.begin()->endpoint();
}

/// Throws Error that names the file.
std::shared_ptr<net::ssl::context> read_certificates(const HttpOptions& options) {
  const auto tls = std::make_shared<net::ssl::context>(net::ssl::context::tls_server);
  tls->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 |
                   net::ssl::context::no_tlsv1_1);
  // A connection that waits keeps no buffers: they are 34 KiB.
  SSL_CTX_set_mode(tls->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  const auto require = [](const char* flag, const std::string& file, const error_code& error) {
    if (error)
      throw Error(fmt::format("{} {}: {}; give a file in PEM that this user may read", flag, file,
                              error.message()));
  };
  error_code error;
  tls->use_certificate_chain_file(options.tls_certificate, error);
  require("--tls-cert", options.tls_certificate, error);
  tls->use_private_key_file(options.tls_key, net::ssl::context::pem, error);
  if (error.category() == net::error::get_ssl_category() &&
      ERR_GET_REASON(static_cast<unsigned long>(error.value())) == X509_R_KEY_VALUES_MISMATCH)
    throw Error(fmt::format("--tls-key {} is not the key of --tls-cert {}; give those of one pair",
                            options.tls_key, options.tls_certificate));
  require("--tls-key", options.tls_key, error);
  return tls;
}

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(const HttpOptions& options)
      : io_(std::make_shared<net::io_context>(1)),
        shared_{.options = options, .io = io_},
        acceptor_(*io_),
        signals_(*io_),
        hangup_(*io_),
        pause_(*io_),
        sweep_(*io_),
        deadline_(*io_) {
    if (!options.tls_certificate.empty()) reload_certificates();
    const tcp::endpoint endpoint = endpoint_of(*io_, options);
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    require_listening(error);
    port_ = acceptor_.local_endpoint().port();
  }

  void listen(HttpHandler handler) {
    shared_.handler = std::move(handler);
    error_code error;
    acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    require_listening(error);
  }

  std::uint16_t port() const { return port_; }
  std::size_t connections() const { return shared_.connection_count; }

  void reload_certificates() { shared_.tls = read_certificates(shared_.options); }

  void run(const std::function<void()>& on_drain, const std::function<void()>& on_reload) {
    on_drain_ = on_drain;
    if (on_reload) {
      hangup_.add(SIGHUP);
      wait_for_hangup(on_reload);
    }
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    signals_.async_wait([&](error_code error, int) {
      if (!error) drain();
    });
    accept();
    sweep();
    io_->run();
    // Whatever still waits is told to end, and does so before the connections' state goes.
    for (Connection* connection : copy_of_connections()) connection->close();
    acceptor_.close();
    signals_.cancel();
    hangup_.cancel();
    pause_.cancel();
    sweep_.cancel();
    deadline_.cancel();
    io_->restart();
    io_->run_for(std::chrono::seconds(5));
  }

  void stop() {
    net::post(*io_, [this] {
      if (!shared_.is_draining) drain();
    });
  }

 private:
  void require_listening(const error_code& error) const {
    if (error)
      throw Error(fmt::format("cannot listen on {} port {}: {}; choose another --host or --port",
                              shared_.options.host, shared_.options.port, error.message()));
  }

  void wait_for_hangup(const std::function<void()>& on_reload) {
    hangup_.async_wait([this, on_reload](error_code error, int) {
      if (error) return;
      on_reload();
      wait_for_hangup(on_reload);
    });
  }

  void accept() {
    if (shared_.connections.size() >= shared_.options.most_connections) return accept_later();
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return accept_later();               // no file descriptors are left, for example
      socket.set_option(tcp::no_delay(true), error);  // a token must not wait for the next one
      start_connection(std::move(socket), shared_);
      accept();
    });
  }

  void accept_later() {
    pause_.expires_after(std::chrono::milliseconds(20));
    pause_.async_wait([this](error_code error) {
      if (!error) accept();
    });
  }

  /// Closes the connections that have been silent for too long, once a second.
  void sweep() {
    sweep_.expires_after(std::chrono::seconds(1));
    sweep_.async_wait([this](error_code error) {
      if (error) return;
      const Clock::time_point now = Clock::now();
      for (Connection* connection : copy_of_connections()) connection->close_if_late(now);
      sweep();
    });
  }

  void drain() {
    if (shared_.is_draining) return io_->stop();
    on_drain_();
    shared_.is_draining = true;
    error_code ignored;
    acceptor_.close(ignored);
    for (Connection* connection : copy_of_connections()) connection->close_if_idle();
    deadline_.expires_after(shared_.options.drain);
    deadline_.async_wait([this](error_code error) {
      if (!error) io_->stop();
    });
    signals_.async_wait([this](error_code error, int) {
      if (!error) drain();
    });
    shared_.on_last_connection = [this] { io_->stop(); };
    if (shared_.connections.empty()) io_->stop();
  }

  std::vector<Connection*> copy_of_connections() const {
    return {shared_.connections.begin(), shared_.connections.end()};
  }

  std::shared_ptr<net::io_context> io_;
  ConnectionContext shared_;
  std::function<void()> on_drain_;
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;  // kept: the acceptor closes when the server ends
  net::signal_set signals_;
  net::signal_set hangup_;
  net::steady_timer pause_;
  net::steady_timer sweep_;
  net::steady_timer deadline_;
};

HttpServer::HttpServer(const HttpOptions& options) : impl_(std::make_unique<Impl>(options)) {}
HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->port(); }
std::size_t HttpServer::connections() const { return impl_->connections(); }
void HttpServer::listen(HttpHandler handler) { impl_->listen(std::move(handler)); }
void HttpServer::reload_certificates() { impl_->reload_certificates(); }
void HttpServer::run(const std::function<void()>& on_drain,
                     const std::function<void()>& on_reload) {
  impl_->run(on_drain, on_reload);
}
void HttpServer::stop() { impl_->stop(); }

}  // namespace attacca::server
