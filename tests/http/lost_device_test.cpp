// Tests of a whole server whose device fails: the requests in the step get an error, others go on,
// and a device that is lost stops the server once everybody has an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "http/raw_client.hpp"
#include "server/answers.hpp"
#include "server/api.hpp"
#include "server/faulty_options.hpp"
#include "server/http_server.hpp"

namespace attacca::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ServerOnAFaultyDevice : public testing::Test {
 protected:
  ServerOnAFaultyDevice() {
    models_.load_now("small");
    http_ = std::make_unique<HttpServer>(HttpOptions{.port = 0});
    http_->listen([this](HttpRequest request, const ExchangePtr& exchange) {
      api_.handle(std::move(request), exchange);
    });
    thread_ = std::thread([this] {
      http_->run([this] { api_.drain(); });
      has_ended_ = true;
    });
  }
  ~ServerOnAFaultyDevice() override {
    http_->stop();
    thread_.join();
  }
  std::string complete(const std::string& fields) const {
    const std::string body = R"({"prompt": "Once", "max_tokens": 8)" + fields + "}";
    const test::RawClient client(http_->port());
    client.send("POST /v1/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.rest();
  }

  std::shared_ptr<test::Faults> faults_ = std::make_shared<test::Faults>();
  std::unique_ptr<HttpServer> http_;
  std::atomic<bool> has_ended_ = false;
  Models models_{{source_of("small", "", faulty_options(faults_))},
                 {.slots = 2, .on_lost = [this](const std::string&) { http_->stop(); }}};
  Api api_{models_};
  std::thread thread_;
};

TEST_F(ServerOnAFaultyDevice, a_failed_step_costs_its_requests_alone) {
  faults_->launches = {test::Faults::Kind::throws};
  EXPECT_THAT(complete(""), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(complete(R"(, "stream": true)"), HasSubstr("data: [DONE]"));
  EXPECT_FALSE(has_ended_);
}

TEST_F(ServerOnAFaultyDevice, a_lost_device_answers_all_and_ends_the_server) {
  EXPECT_THAT(complete(""), StartsWith("HTTP/1.1 200"));
  faults_->is_lost = true;
  std::vector<std::thread> clients;
  for (int client = 0; client < 6; ++client)
    clients.emplace_back([this, client] {
      const std::string reply = complete(client % 2 == 0 ? "" : R"(, "stream": true)");
      if (reply.empty()) return;  // a late one finds the port closed
      EXPECT_THAT(reply, HasSubstr(R"("error":{"message":)"));
    });
  for (std::thread& client : clients) client.join();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!has_ended_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(has_ended_);
}

}  // namespace
}  // namespace attacca::server
