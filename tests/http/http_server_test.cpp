// Tests of the HTTP server alone, over the loopback device: clients that stall are let go within
// their time, a stop lets replies end, what the handler does not answer closes the connection, and
// the log says what was sent.
#include "server/http_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "http/raw_client.hpp"
#include "server/request_log.hpp"

namespace attacca::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The lines of a log, as JSON. A test waits for them.
class LinesOfLog {
 public:
  void add(const std::string& line) {
    {
      const std::lock_guard lock(mutex_);
      lines_.push_back(nlohmann::json::parse(line));
    }
    arrived_.notify_all();
  }
  nlohmann::json wait_for(std::size_t at) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::minutes(1), [&] { return lines_.size() > at; });
    return at < lines_.size() ? lines_[at] : nullptr;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<nlohmann::json> lines_;
};

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpOptions options, HttpHandler handler = {}) {
    options.port = 0;
    if (!handler)
      handler = [](const HttpRequest& request, const ExchangePtr& exchange) {
        exchange->send({.body = request.body + "!"});
      };
    server_ = std::make_unique<HttpServer>(options);
    server_->listen(std::move(handler));
    thread_ = std::thread([this] { server_->run([this] { is_drained_ = true; }); });
  }
  ~HttpServerTest() override {
    server_->stop();
    if (thread_.joinable()) thread_.join();
  }
  test::RawClient connect() const { return test::RawClient(server_->port()); }

  LinesOfLog lines_;
  const std::shared_ptr<RequestLog> log_ = std::make_shared<RequestLog>(
      LogFormat::json, [this](const std::string& line) { lines_.add(line); });
  std::unique_ptr<HttpServer> server_;
  std::atomic<bool> is_drained_ = false;
  std::thread thread_;
};

TEST_F(HttpServerTest, who_sends_a_header_letter_by_letter_is_let_go_and_delays_nobody) {
  start({.most_connections = 8, .header = std::chrono::seconds(1)});
  std::vector<std::unique_ptr<test::RawClient>> slow;
  for (int i = 0; i < 7; ++i) slow.push_back(std::make_unique<test::RawClient>(server_->port()));
  for (const auto& client : slow) client->send("GET / HTTP/1.1\r\nX-A");
  const test::RawClient quick = connect();
  quick.send("POST / HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nHi");
  EXPECT_THAT(quick.rest(), StartsWith("HTTP/1.1 200 OK"));
  std::atomic<bool> is_over = false;
  std::thread trickle([&] {  // one letter now and then must not buy more time
    while (!is_over) {
      for (const auto& client : slow) client->send("a");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  for (const auto& client : slow) EXPECT_EQ(client->rest(), "");
  is_over = true;
  trickle.join();
}

TEST_F(HttpServerTest, who_never_sends_its_body_is_let_go) {
  start({.body = std::chrono::seconds(0)});
  const test::RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\nH");
  EXPECT_EQ(client.rest(), "");
}

TEST_F(HttpServerTest, who_reads_nothing_of_its_reply_is_let_go) {
  std::atomic<bool> has_left = false;
  start({.stalled_write = std::chrono::seconds(0)},
        [&](const HttpRequest&, const ExchangePtr& exchange) {
          exchange->on_leave([&, exchange] { has_left = true; });
          exchange->begin({});
          exchange->write(std::string(64 << 20, 'x'));
        });
  const test::RawClient client = connect();
  client.send("GET / HTTP/1.1\r\n\r\n");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!has_left && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(has_left);
}

TEST_F(HttpServerTest, a_stop_lets_replies_end_and_takes_no_more) {
  ExchangePtr open;
  std::atomic<bool> has_begun = false;
  start({}, [&](const HttpRequest&, const ExchangePtr& exchange) {
    exchange->begin({.body = "first, "});
    open = exchange;
    has_begun = true;
  });
  const test::RawClient client = connect();
  client.send("GET / HTTP/1.1\r\n\r\n");
  while (!has_begun) std::this_thread::yield();
  server_->stop();
  while (!is_drained_) std::this_thread::yield();
  open->write("then the end");
  open->end();
  open.reset();
  EXPECT_THAT(client.rest(), HasSubstr("then the end"));
  thread_.join();
}

TEST_F(HttpServerTest, a_port_that_another_listens_on_is_refused_at_once) {
  start({});
  EXPECT_THAT(
      [&] { HttpServer({.port = server_->port()}); },
      testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr(std::to_string(server_->port())),
                                                   HasSubstr("choose another --host or --port"))));
}

TEST_F(HttpServerTest, of_two_that_take_a_port_before_either_listens_one_is_refused) {
  HttpServer first({.port = 0});
  HttpServer second({.port = first.port()});
  first.listen({});
  EXPECT_THROW(second.listen({}), Error);
  start({});  // for the end of the test
}

TEST_F(HttpServerTest, a_line_is_logged_when_the_client_has_its_stream_and_not_before) {
  start({}, [&](const HttpRequest& request, const ExchangePtr& exchange) {
    const ExchangePtr logged = log_->wrap(exchange, request);
    logged->begin({});
    logged->write(std::string(request.path == "/long" ? 64 << 20 : 10, 'x'));
    logged->end();
  });
  const test::RawClient slow = connect();
  slow.send("GET /long HTTP/1.1\r\nConnection: close\r\n\r\n");
  const auto ask = [&] {
    const test::RawClient client = connect();
    client.send("GET /short HTTP/1.1\r\nConnection: close\r\n\r\n");
    return client.rest().size();
  };
  for (std::size_t at = 0; at < 3; ++at) {
    const std::size_t bytes = ask();
    const nlohmann::json line = lines_.wait_for(at);
    EXPECT_EQ(line["path"], "/short");
    EXPECT_EQ(line["bytes"], bytes);
    EXPECT_EQ(line["client_left"], false);
  }
  const std::size_t bytes = slow.rest().size();
  EXPECT_GT(bytes, 64u << 20);
  const nlohmann::json line = lines_.wait_for(3);
  EXPECT_EQ(line["path"], "/long");
  EXPECT_EQ(line["bytes"], bytes);
  EXPECT_EQ(line["client_left"], false);
}

TEST_F(HttpServerTest, a_line_waits_for_no_handler_and_counts_replies_of_other_threads) {
  std::vector<ExchangePtr> kept;
  start({}, [&](const HttpRequest& request, const ExchangePtr& exchange) {
    kept.push_back(log_->wrap(exchange, request));
    std::thread([logged = kept.back()] { logged->send({.body = "Hi"}); }).join();
  });
  const test::RawClient client = connect();
  client.send("GET / HTTP/1.1\r\n\r\n");
  const nlohmann::json line = lines_.wait_for(0);
  EXPECT_EQ(line["client_left"], false);
  EXPECT_EQ(line["status"], 200);
  EXPECT_GT(line["bytes"], 2);
  server_->stop();
  thread_.join();
}

TEST_F(HttpServerTest, a_line_says_what_a_client_got_that_stopped_reading) {
  start({.stalled_write = std::chrono::seconds(0)},
        [&](const HttpRequest& request, const ExchangePtr& exchange) {
          const ExchangePtr logged = log_->wrap(exchange, request);
          logged->begin({});
          logged->write(std::string(64 << 20, 'x'));
          logged->end();
        });
  const test::RawClient client = connect();
  client.send("GET / HTTP/1.1\r\n\r\n");
  const nlohmann::json line = lines_.wait_for(0);
  EXPECT_EQ(line["client_left"], false);
  EXPECT_EQ(line["given_up"], true);
  EXPECT_EQ(line["status"], 200);
  EXPECT_LT(line["bytes"], 64 << 20);
}

TEST_F(HttpServerTest, a_line_says_who_gave_up_and_waits_for_the_handlers_tokens) {
  ExchangePtr open;
  std::atomic<bool> has_begun = false, has_left = false;
  start({.drain = std::chrono::milliseconds(0)},
        [&](const HttpRequest& request, const ExchangePtr& exchange) {
          open = log_->wrap(exchange, request);
          open->on_leave([&] { has_left = true; });
          open->begin({});
          has_begun = true;
        });
  const auto end_with = [&](std::size_t tokens) {
    open->note({.prompt = 5, .cached = 0, .generated = tokens});
    open.reset();
  };
  std::optional<test::RawClient> client(server_->port());
  client->send("GET /left HTTP/1.1\r\n\r\n");
  while (!has_begun.exchange(false)) std::this_thread::yield();
  client.reset();
  while (!has_left) std::this_thread::yield();
  end_with(1);
  nlohmann::json line = lines_.wait_for(0);
  EXPECT_EQ(line["client_left"], true);
  EXPECT_EQ(line["given_up"], false);
  EXPECT_EQ(line["generated_tokens"], 1);
  client.emplace(server_->port());
  client->send("GET /slow HTTP/1.1\r\n\r\n");
  while (!has_begun) std::this_thread::yield();
  server_->stop();
  thread_.join();
  end_with(2);
  line = lines_.wait_for(1);
  EXPECT_EQ(line["client_left"], false);
  EXPECT_EQ(line["given_up"], true);
  EXPECT_EQ(line["generated_tokens"], 2);
}

TEST_F(HttpServerTest, what_it_refuses_reaches_the_handler_with_what_was_read) {
  start({.most_body_bytes = 10, .most_header_bytes = 1000},
        [&](const HttpRequest& request, const ExchangePtr& exchange) {
          log_->wrap(exchange, request)
              ->send({.status = request.refusal.status, .body = request.refusal.message});
        });
  const auto refuse = [&](const std::string& text) {
    const test::RawClient client = connect();
    client.send(text);
    return client.rest();
  };
  EXPECT_THAT(refuse("POST /a HTTP/1.1\r\nX-Request-Id: mine\r\nContent-Length: 11\r\n\r\nHello"),
              testing::AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("X-Request-Id: mine\r\n")));
  nlohmann::json line = lines_.wait_for(0);
  EXPECT_EQ(line["method"], "POST");
  EXPECT_EQ(line["path"], "/a");
  EXPECT_EQ(line["status"], 413);
  EXPECT_THAT(refuse("GET /b HTTP/1.1\r\nX: " + std::string(2000, 'x')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(lines_.wait_for(1)["status"], 431);
  EXPECT_THAT(refuse("hello\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("X-Request-Id: req-")));
  line = lines_.wait_for(2);
  EXPECT_EQ(line["path"], "");
  EXPECT_EQ(line["status"], 400);
}

TEST_F(HttpServerTest, a_reply_that_is_given_up_closes_the_connection) {
  start({}, [](const HttpRequest&, const ExchangePtr&) {});
  const test::RawClient client = connect();
  client.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.rest(), "");
}

}  // namespace
}  // namespace attacca::server
