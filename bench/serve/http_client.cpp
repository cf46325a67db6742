// http_client.cpp: each call is a coroutine on Boost.Asio, and Beast reads its reply. Requests are
// written by hand: only Beast's parser is worth the time it takes to compile.
#include "serve/http_client.hpp"

#include <fmt/format.h>

#include <array>
#include <attacca/error.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/read.hpp>
#include <set>
#include <utility>
#include <vector>

#include "server/socket.hpp"

namespace bench::serve {

namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr std::uint32_t kMostHeaderBytes = 64 * 1024;
constexpr std::size_t kPieceBytes = 4096;

struct Connection {
  explicit Connection(net::io_context& io) : socket(tcp::socket(io)) {}
  attacca::server::Socket socket;
  boost::beast::flat_buffer input{};
  Time give_up_at = Time::max();
  bool is_given_up = false;
};

/// How a call on a connection ended.
struct Outcome {
  error_code error = {};
  bool has_reply = false;    // at least its head
  bool keeps_alive = false;  // the connection can be used again
};

std::string problem_of(const error_code& error) {
  if (!error) return {};
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == net::error::eof)
    return "the connection closed early";
  if (error.category() == net::error::get_ssl_category())
    return "TLS: " + error.message() + "; --ca-file or --insecure may help";
  if (error.category() == http::make_error_code(http::error{}).category())
    return "the reply is no HTTP: " + error.message();
  return error.message();
}

}  // namespace

class HttpClient::Impl {
 public:
  Impl(const Url& url, const ClientOptions& options)
      : silence_(options.silence), io_(1), sweep_(io_) {
    error_code error;
    tcp::resolver resolver(io_);
    endpoints_ = resolver.resolve(url.host, std::to_string(url.port), error);
    if (error || endpoints_.empty())
      throw attacca::Error(
          fmt::format("--url {}: no host '{}': {}", url.text(), url.host, error.message()));
    headers_ =
        fmt::format("Host: {}\r\nAccept: text/event-stream, application/json\r\n", url.authority());
    if (!options.api_key.empty())
      headers_ += fmt::format("Authorization: Bearer {}\r\n", options.api_key);
    if (url.is_tls) use_tls(url, options);
  }

  void at(Time time, std::function<void()> work) {
    if (time <= std::chrono::steady_clock::now()) {
      net::post(io_, std::move(work));
      return;
    }
    const auto timer = std::make_shared<net::steady_timer>(io_, time);
    timer->async_wait([timer, work = std::move(work)](error_code) { work(); });
  }

  void send(const HttpCall& call, std::shared_ptr<ReplySink> sink) {
    std::string text = fmt::format("{} {} HTTP/1.1\r\n{}", call.method, call.path, headers_);
    if (call.method == "POST")
      text +=
          fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", call.body.size());
    text += "\r\n";
    text += call.body;
    if (open_calls_++ == 0) sweep();
    net::co_spawn(io_, answer(std::move(text), std::move(sink)),
                  [this](const std::exception_ptr& error) {
                    if (--open_calls_ == 0) sweep_.cancel();
                    if (error) std::rethrow_exception(error);
                  });
  }

  void run() {
    io_.restart();
    io_.run();
  }

 private:
  net::awaitable<void> answer(std::string request, std::shared_ptr<ReplySink> sink);
  net::awaitable<error_code> connect(Connection& connection);
  net::awaitable<Outcome> exchange(Connection& connection, const std::string& request,
                                   ReplySink& sink);
  net::awaitable<error_code> read_body(Connection& connection,
                                       http::response_parser<http::buffer_body>& parser,
                                       ReplySink& sink);

  void use_tls(const Url& url, const ClientOptions& options) {
    host_ = url.host;
    tls_ = std::make_shared<net::ssl::context>(net::ssl::context::tls_client);
    if (options.is_insecure) return;
    error_code error;
    if (options.ca_file.empty())
      tls_->set_default_verify_paths(error);
    else
      tls_->load_verify_file(options.ca_file, error);
    if (error)
      throw attacca::Error(fmt::format("--ca-file {}: {}; give certificates in PEM",
                                       options.ca_file, error.message()));
    tls_->set_verify_mode(net::ssl::verify_peer);
    tls_->set_verify_callback(net::ssl::host_name_verification(host_));
  }

  void give_time(Connection& connection) const {
    connection.give_up_at = std::chrono::steady_clock::now() + silence_;
  }

  /// Gives up the calls whose servers have been silent for too long.
  void sweep() {
    sweep_.expires_after(std::min(std::chrono::milliseconds(1000), silence_));
    sweep_.async_wait([this](error_code error) {
      if (error || open_calls_ == 0) return;
      const Time now = std::chrono::steady_clock::now();
      for (Connection* connection : busy_)
        if (now > connection->give_up_at) {
          connection->is_given_up = true;
          error_code ignored;
          connection->socket.tcp().close(ignored);
        }
      sweep();
    });
  }

  std::chrono::milliseconds silence_;
  std::string headers_;  // of every request
  net::io_context io_;
  tcp::resolver::results_type endpoints_;
  std::string host_;                        // with TLS: the name in the certificate
  std::shared_ptr<net::ssl::context> tls_;  // null: plain HTTP
  std::vector<std::unique_ptr<Connection>> idle_;
  std::set<Connection*> busy_;
  std::size_t open_calls_ = 0;
  net::steady_timer sweep_;
};

net::awaitable<void> HttpClient::Impl::answer(std::string request,
                                              std::shared_ptr<ReplySink> sink) {
  std::string problem;
  for (bool is_done = false; !is_done;) {
    const bool is_kept = !idle_.empty();
    std::unique_ptr<Connection> connection;
    if (is_kept) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    } else {
      connection = std::make_unique<Connection>(io_);
    }
    busy_.insert(connection.get());
    give_time(*connection);
    Outcome outcome;
    if (!is_kept) outcome.error = co_await connect(*connection);
    const bool is_refused = bool(outcome.error);
    if (!is_refused) outcome = co_await exchange(*connection, request, *sink);
    busy_.erase(connection.get());
    is_done = !is_kept || outcome.has_reply || connection->is_given_up || !outcome.error;
    problem = problem_of(outcome.error);
    if (is_refused) problem = "cannot connect: " + problem;
    if (connection->is_given_up)
      problem = fmt::format("no byte for {:g} s", static_cast<double>(silence_.count()) / 1000);
    if (outcome.keeps_alive) idle_.push_back(std::move(connection));
  }
  sink->on_end(problem);
}

net::awaitable<error_code> HttpClient::Impl::connect(Connection& connection) {
  tcp::socket& socket = connection.socket.tcp();
  const auto [error, endpoint] = co_await net::async_connect(socket, endpoints_, kAwait);
  if (error) co_return error;
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  if (!tls_) co_return error;
  connection.socket.use_tls(tls_);
  SSL_set_tlsext_host_name(connection.socket.tls()->native_handle(), host_.c_str());
  const auto [refused] =
      co_await connection.socket.tls()->async_handshake(net::ssl::stream_base::client, kAwait);
  co_return refused;
}

net::awaitable<Outcome> HttpClient::Impl::exchange(Connection& connection,
                                                   const std::string& request, ReplySink& sink) {
  const auto [write_error, written] =
      co_await net::async_write(connection.socket, net::buffer(request), kAwait);
  if (write_error) co_return Outcome{write_error};
  for (;;) {
    http::response_parser<http::buffer_body> parser;
    parser.header_limit(kMostHeaderBytes);
    parser.body_limit(boost::none);  // the sink decides how much it keeps
    const auto [error, bytes] =
        co_await http::async_read_header(connection.socket, connection.input, parser, kAwait);
    if (error) co_return Outcome{error};
    const int status = static_cast<int>(parser.get().result_int());
    if (status < 200) continue;  // 100 Continue: the reply is still to come
    sink.on_status(status);
    const error_code body_error = co_await read_body(connection, parser, sink);
    co_return Outcome{body_error, true, !body_error && parser.keep_alive()};
  }
}

net::awaitable<error_code> HttpClient::Impl::read_body(
    Connection& connection, http::response_parser<http::buffer_body>& parser, ReplySink& sink) {
  std::array<char, kPieceBytes> piece;
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data();
    body.size = piece.size();
    give_time(connection);
    const auto [error, bytes] =
        co_await http::async_read_some(connection.socket, connection.input, parser, kAwait);
    const std::size_t length = piece.size() - body.size;
    if (length > 0) sink.on_body({piece.data(), length});
    if (error && error != http::error::need_buffer) co_return error;
  }
  co_return error_code{};
}

HttpClient::HttpClient(const Url& url, const ClientOptions& options)
    : impl_(std::make_unique<Impl>(url, options)) {}
HttpClient::~HttpClient() = default;

void HttpClient::at(Time time, std::function<void()> work) { impl_->at(time, std::move(work)); }
void HttpClient::send(HttpCall call, std::shared_ptr<ReplySink> sink) {
  impl_->send(call, std::move(sink));
}
void HttpClient::run() { impl_->run(); }

}  // namespace bench::serve
