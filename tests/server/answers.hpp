// answers.hpp: asks the endpoints without a socket, and keeps what a client would have got.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "server/api.hpp"

namespace attacca::server {

/// What a client got.
struct Answer {
  std::mutex mutex;
  std::condition_variable arrived;
  int status = 0;
  HttpHeaders headers;
  std::string body;
  bool is_complete = false;
  bool is_over = false;  // complete or given up
};

class RecordingExchange final : public Exchange {
 public:
  RecordingExchange(std::shared_ptr<Answer> answer, bool has_left)
      : answer_(std::move(answer)), has_left_(has_left) {}
  ~RecordingExchange() override {
    note([](Answer& answer) { answer.is_over = true; });
  }
  void send(HttpReply reply) override {
    begin(std::move(reply));
    end();
  }
  void begin(HttpReply head) override {
    note([&](Answer& answer) {
      EXPECT_EQ(answer.status, 0) << "a second reply";
      answer.status = head.status;
      answer.body = head.body;
      answer.headers = head.headers;
    });
  }
  void write(std::string piece) override {
    note([&](Answer& answer) { answer.body += piece; });
  }
  void end() override {
    note([](Answer& answer) { answer.is_complete = answer.is_over = true; });
  }
  void on_leave(std::function<void()> work) override {
    if (has_left_) work();
  }

 private:
  template <class Work>
  void note(const Work& work) {
    {
      const std::lock_guard lock(answer_->mutex);
      work(*answer_);
    }
    answer_->arrived.notify_all();
  }

  std::shared_ptr<Answer> answer_;
  bool has_left_;
};

/// A model that an engine with these options serves.
inline ModelSource source_of(const std::string& name, const std::string& path,
                             const llm::EngineOptions& options) {
  return {.name = name, .load = [path, options](const LoadTerms& terms) {
            llm::EngineOptions with = options;
            with.memory_limit = terms.memory_limit;
            with.turns = terms.turns;
            with.on_step = terms.on_step;
            const llm::Model model(path);
            return LoadedModel{model, llm::Engine(model, with)};
          }};
}

/// Waits for the end of the reply. `has_left`: the client is gone at once.
inline std::shared_ptr<Answer> answer_of(Api& api, const std::string& method,
                                         const std::string& path, const std::string& body,
                                         bool has_left = false) {
  const auto answer = std::make_shared<Answer>();
  api.handle({.method = method, .path = path, .authorization = {}, .body = body},
             std::make_shared<RecordingExchange>(answer, has_left));
  std::unique_lock lock(answer->mutex);
  EXPECT_TRUE(
      answer->arrived.wait_for(lock, std::chrono::minutes(1), [&] { return answer->is_over; }));
  return answer;
}

}  // namespace attacca::server
