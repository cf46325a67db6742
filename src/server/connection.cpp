// connection.cpp: a connection as a pair of coroutines on Boost.Asio: one reads requests ahead, the
// other answers them in order. Its state belongs to the thread that runs the io_context; exchanges
// reach it from other threads by posting.
#include "server/connection.hpp"

#include <fmt/format.h>

#include <openssl/sslerr.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <deque>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "server/http_text.hpp"
#include "server/socket.hpp"

namespace attacca::server {

namespace {

/// A proxy asks for a whole address: http://host/path.
std::string path_of(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (const std::size_t scheme = target.find("://");
      scheme != std::string_view::npos && !target.starts_with('/')) {
    const std::size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  return std::string(target);
}

namespace net = boost::asio;
namespace http = boost::beast::http;
using tcp = net::ip::tcp;
using Clock = std::chrono::steady_clock;
using boost::system::error_code;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr auto kNever = Clock::time_point::max();
constexpr std::size_t kFirstRead = 1536;  // bytes; Beast reads so many at first
constexpr std::size_t kMostAhead = 2;     // requests of one connection that wait for their turn

/// A request in line.
struct Pending {
  HttpRequest request = {};
  ReplyForm form = {};
};

using Message = http::request<http::string_body>;

/// Without its body.
HttpRequest request_of(const Message& message) {
  return {.method = std::string(message.method_string()),
          .path = path_of(message.target()),
          .authorization = std::string(message[http::field::authorization]),
          .body = {},
          .origin = std::string(message[http::field::origin]),
          .id = std::string(message["X-Request-Id"])};
}

/// Whether a handshake failed because the client speaks plain HTTP.
bool is_plain_http(error_code error) {
  return error.category() == net::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
}

class HttpConnection final : public Connection,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(tcp::socket socket, ConnectionContext& shared)
      : shared_(shared), socket_(std::move(socket)), wake_(*shared.io), room_(*shared.io) {
    if (shared_.tls) socket_.use_tls(shared_.tls);
    error_code ignored;
    socket_.tcp().non_blocking(true, ignored);
    shared_.connections.insert(this);
    shared_.connection_count = shared_.connections.size();
    wake_.expires_at(kNever);
    room_.expires_at(kNever);
  }
  HttpConnection(const HttpConnection&) = delete;
  ~HttpConnection() override {
    shared_.connections.erase(this);
    shared_.connection_count = shared_.connections.size();
    if (shared_.connections.empty() && shared_.on_last_connection) shared_.on_last_connection();
  }

  void start() {
    const auto at_end = [self = shared_from_this()](const std::exception_ptr& error) {
      if (error) self->close();
    };
    net::co_spawn(*shared_.io, read_requests(), at_end);
    net::co_spawn(*shared_.io, write_replies(), at_end);
  }

  /// Gives up whatever is going on.
  void close() override {
    if (is_closed_) return;
    is_closed_ = true;
    is_given_up_ = !has_left_;
    leave();
    error_code ignored;
    socket_.tcp().close(ignored);
    room_.cancel();
  }

  void close_if_idle() override {
    if (!is_answering_ && pending_.empty() && !is_reading_body_) close();
  }

  void close_if_late(Clock::time_point now) override {
    const bool waits_for_client = !is_answering_ && pending_.empty();
    if (now > write_by_ || (waits_for_client && now > read_by_)) close();
  }

  // What exchange `id` has to say. Nothing, unless it is the current one.
  void send(std::uint64_t id, const HttpReply& reply) {
    if (!is_current(id)) return;
    output_ += reply_text(reply, form_);
    complete();
  }
  void begin(std::uint64_t id, const HttpReply& head) {
    if (!is_current(id)) return;
    if (!form_.is_http11) form_.keeps_alive = false;
    output_ += stream_head(head, form_);
    write_at_once();
  }
  void write(std::uint64_t id, const std::string& piece) {
    if (!is_current(id)) return;
    output_ += stream_piece(piece, form_);
    write_at_once();
  }
  void end(std::uint64_t id) {
    if (!is_current(id)) return;
    output_ += stream_end(form_);
    complete();
  }
  void on_leave(std::uint64_t id, std::function<void()> work) {
    if (is_current(id) && !has_left_)
      on_leave_ = std::move(work);
    else if (id != exchange_ || !is_complete_)
      work();
  }
  void on_sent(std::uint64_t id, std::function<void(const Sent&)> work) {
    if (is_current(id)) on_sent_ = std::move(work);
  }
  void abandon(std::uint64_t id) {
    if (is_current(id)) close();
  }

 private:
  net::awaitable<void> read_requests();
  net::awaitable<error_code> wait_for_bytes();
  net::awaitable<error_code> read_body(http::request_parser<http::string_body>& parser);
  void end_reading(error_code error, const Message& message = {});
  net::awaitable<void> write_replies();
  net::awaitable<void> write_output();
  net::awaitable<void> discard_input();
  void end_sending();

  bool is_current(std::uint64_t id) const { return id == exchange_ && !is_complete_; }

  /// Writes what the system takes without waiting, which is mostly all. The coroutine that writes
  /// does the rest; to wake it for every token would take longer than the write.
  void write_at_once() {
    if (!is_writing_ && !socket_.tls()) {
      error_code error;
      const std::size_t bytes = socket_.tcp().write_some(net::buffer(output_), error);
      if (!error) output_.erase(0, bytes);
      bytes_sent_ += bytes;
      if (output_.empty()) return;
    }
    wake_.cancel();
  }

  void complete() {
    is_complete_ = true;
    on_leave_ = {};
    wake_.cancel();
  }

  /// The client is gone, or as good as gone: nobody waits for a long reply. Short ones are still
  /// written, because the client may have closed only its own side.
  void leave() {
    has_left_ = true;
    if (const auto work = std::exchange(on_leave_, {})) work();
    wake_.cancel();
  }

  void lose_client() {
    leave();
    close();
  }

  void refuse(HttpRequest request, int status, const std::string& message) {
    request.refusal = {status, message};
    pending_.push_back({.request = std::move(request), .form = {.keeps_alive = false}});
    wake_.cancel();
  }

  void answer(Pending next);
  void tell_sent();

  ConnectionContext& shared_;
  Socket socket_;
  net::steady_timer wake_;  // cancelled when the writer has something to look at
  net::steady_timer room_;  // cancelled when the reader has
  boost::beast::flat_buffer input_;
  std::deque<Pending> pending_;
  std::string output_;  // not yet given to the socket
  std::uint64_t exchange_ = 0;
  ReplyForm form_;              // of the current reply
  std::size_t bytes_sent_ = 0;  // of it
  std::function<void()> on_leave_;
  std::function<void(const Sent&)> on_sent_;
  Clock::time_point read_by_ = kNever;  // counts while the connection waits for its client
  Clock::time_point write_by_ = kNever;
  bool is_answering_ = false;
  bool is_writing_ = false;
  bool is_reading_ = true;  // requests; not what is discarded at the end
  bool is_reading_body_ = false;
  bool is_lingering_ = false;
  bool is_complete_ = true;
  bool has_left_ = false;
  bool is_closed_ = false;
  bool is_given_up_ = false;  // it was closed before its client left
};

/// The way from a handler to its connection. The io_context is shared, because the engine may call
/// back after the server has gone.
class SocketExchange final : public Exchange {
 public:
  SocketExchange(std::shared_ptr<net::io_context> io, std::weak_ptr<HttpConnection> connection,
                 std::uint64_t id)
      : io_(std::move(io)), connection_(std::move(connection)), id_(id) {}
  ~SocketExchange() override {
    post([](HttpConnection& connection, std::uint64_t id) { connection.abandon(id); });
  }

  void send(HttpReply reply) override {
    post([reply = std::move(reply)](HttpConnection& connection, std::uint64_t id) {
      connection.send(id, reply);
    });
  }
  void begin(HttpReply head) override {
    post([head = std::move(head)](HttpConnection& connection, std::uint64_t id) {
      connection.begin(id, head);
    });
  }
  void write(std::string piece) override {
    post([piece = std::move(piece)](HttpConnection& connection, std::uint64_t id) {
      connection.write(id, piece);
    });
  }
  void end() override {
    post([](HttpConnection& connection, std::uint64_t id) { connection.end(id); });
  }
  void on_leave(std::function<void()> work) override {
    net::post(*io_, [connection = connection_, id = id_, work = std::move(work)] {
      if (const auto there = connection.lock())
        there->on_leave(id, work);
      else
        work();
    });
  }
  /// At once: a reply from another thread may overtake what this one posts.
  void on_sent(std::function<void(const Sent&)> work) override {
    if (const auto there = connection_.lock()) there->on_sent(id_, std::move(work));
  }

 private:
  template <class Work>
  void post(Work work) {
    net::post(*io_, [connection = connection_, id = id_, work = std::move(work)] {
      if (const auto there = connection.lock()) work(*there, id);
    });
  }

  std::shared_ptr<net::io_context> io_;
  std::weak_ptr<HttpConnection> connection_;
  std::uint64_t id_;
};

net::awaitable<void> HttpConnection::read_requests() {
  const auto self = shared_from_this();
  const HttpOptions& options = shared_.options;
  read_by_ = Clock::now() + options.header;
  if (socket_.tls()) {
    const auto [error] =
        co_await socket_.tls()->async_handshake(net::ssl::stream_base::server, kAwait);
    if (error) co_return end_reading(error);
  }
  while (!is_closed_) {
    while (pending_.size() >= kMostAhead && !is_closed_) co_await room_.async_wait(kAwait);
    http::request_parser<http::string_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(options.most_header_bytes));
    parser.body_limit(options.most_body_bytes);
    read_by_ = Clock::now() + options.idle;
    error_code error = co_await wait_for_bytes();
    read_by_ = Clock::now() + options.header;
    if (!error)
      std::tie(error, std::ignore) =
          co_await http::async_read_header(socket_, input_, parser, kAwait);
    if (error) co_return end_reading(error, parser.get());
    is_reading_body_ = true;
    const error_code body_error = co_await read_body(parser);
    is_reading_body_ = false;
    if (body_error) co_return end_reading(body_error, parser.get());
    if (is_lingering_) continue;
    Message message = parser.release();
    pending_.push_back({.request = request_of(message),
                        .form = {.is_http11 = message.version() >= 11,
                                 .keeps_alive = message.keep_alive(),
                                 .is_head = message.method() == http::verb::head}});
    pending_.back().request.body = std::move(message.body());
    wake_.cancel();
  }
}

/// Until the client begins its next request.
net::awaitable<error_code> HttpConnection::wait_for_bytes() {
  if (input_.size() > 0) co_return error_code();
  const auto [error, bytes] = co_await socket_.async_read_some(input_.prepare(kFirstRead), kAwait);
  input_.commit(bytes);
  co_return error == net::error::eof ? http::make_error_code(http::error::end_of_stream) : error;
}

net::awaitable<error_code> HttpConnection::read_body(
    http::request_parser<http::string_body>& parser) {
  read_by_ = Clock::now() + shared_.options.body;
  if (boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    // The client waits for this line before it sends the body. It goes behind earlier replies.
    while ((is_answering_ || !pending_.empty()) && !is_closed_) co_await room_.async_wait(kAwait);
    read_by_ = Clock::now() + shared_.options.body;
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    const auto [error, bytes] = co_await net::async_write(socket_, net::buffer(kContinue), kAwait);
    if (error) co_return error;
  }
  const auto [error, bytes] = co_await http::async_read(socket_, input_, parser, kAwait);
  co_return error;
}

/// `message`: what was read of a request until then.
void HttpConnection::end_reading(error_code error, const Message& message) {
  is_reading_ = false;
  wake_.cancel();
  const HttpOptions& options = shared_.options;
  if (error == http::error::end_of_stream) return leave();
  if (error == http::error::header_limit)
    return refuse(request_of(message), 431,
                  fmt::format("the header is larger than {} bytes", options.most_header_bytes));
  if (error == http::error::body_limit)
    return refuse(request_of(message), 413,
                  fmt::format("the body is larger than {} bytes; start the server with a "
                              "larger --max-body, or send less",
                              options.most_body_bytes));
  const bool is_parsed = error.category() == http::make_error_code(http::error{}).category();
  if (is_parsed && error != http::error::partial_message)
    return refuse(request_of(message), 400,
                  fmt::format("this is no HTTP request: {}", error.message()));
  if (is_plain_http(error)) {
    socket_.drop_tls();
    return refuse({}, 400, "this port speaks HTTPS; give the address as https://");
  }
  lose_client();
}

void HttpConnection::answer(Pending next) {
  ++exchange_;
  is_complete_ = false;
  bytes_sent_ = 0;
  form_ = next.form;
  if (shared_.is_draining) form_.keeps_alive = false;
  const auto exchange = std::make_shared<SocketExchange>(shared_.io, weak_from_this(), exchange_);
  shared_.handler(std::move(next.request), exchange);
}

void HttpConnection::tell_sent() {
  const bool is_whole = is_complete_ && !is_closed_;
  if (const auto work = std::exchange(on_sent_, {})) work({bytes_sent_, is_whole, is_given_up_});
}

net::awaitable<void> HttpConnection::write_replies() {
  const auto self = shared_from_this();
  while (!is_closed_) {
    while (pending_.empty() && !is_closed_ && !has_left_) co_await wake_.async_wait(kAwait);
    if (pending_.empty()) break;
    is_answering_ = true;
    Pending next = std::move(pending_.front());
    pending_.pop_front();
    room_.cancel();
    answer(std::move(next));
    co_await write_output();
    tell_sent();
    is_answering_ = false;
    read_by_ = Clock::now() + shared_.options.idle;
    room_.cancel();
    if (!form_.keeps_alive || shared_.is_draining) break;
  }
  if (!is_closed_ && !has_left_) co_await discard_input();
  close();
}

/// Writes the current reply as it comes, until it is complete or the connection is closed.
net::awaitable<void> HttpConnection::write_output() {
  std::string writing;
  while (!is_closed_) {
    while (output_.empty() && !is_complete_ && !is_closed_) co_await wake_.async_wait(kAwait);
    if (output_.empty()) break;
    writing.clear();
    writing.swap(output_);
    write_by_ = Clock::now() + shared_.options.stalled_write;
    is_writing_ = true;
    const auto [error, bytes] = co_await net::async_write(socket_, net::buffer(writing), kAwait);
    is_writing_ = false;
    write_by_ = kNever;
    bytes_sent_ += bytes;
    if (error) lose_client();
  }
}

/// Ends a connection whose client may still be sending. If the socket were closed with bytes
/// unread, the system would tell the client at once that the connection broke, and the client might
/// never see the reply.
net::awaitable<void> HttpConnection::discard_input() {
  error_code error;
  const bool is_quiet =
      input_.size() == 0 && !is_reading_body_ && socket_.tcp().available(error) == 0;
  if (is_reading_ && is_quiet && !socket_.tls()) co_return;
  is_lingering_ = true;
  read_by_ = Clock::now() + shared_.options.linger;
  pending_.clear();
  room_.cancel();
  end_sending();
  while (is_reading_ && !is_closed_ && !has_left_) co_await wake_.async_wait(kAwait);
  while (!error && !is_closed_ && !has_left_) {
    input_.clear();
    const auto [failure, bytes] =
        co_await socket_.tcp().async_read_some(input_.prepare(65536), kAwait);
    error = failure;
  }
}

/// Tells the client that nothing more will come.
void HttpConnection::end_sending() {
  error_code ignored;
  if (socket_.tls())  // it writes; whether the client answers, the readers notice
    socket_.tls()->async_shutdown([self = shared_from_this()](error_code) {});
  else
    socket_.tcp().shutdown(tcp::socket::shutdown_send, ignored);
}

}  // namespace

void start_connection(tcp::socket socket, ConnectionContext& shared) {
  std::make_shared<HttpConnection>(std::move(socket), shared)->start();
}

}  // namespace attacca::server
