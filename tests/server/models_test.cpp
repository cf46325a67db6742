// Tests of several models in one server: loaded on demand, unloaded when idle or asked, counted
// against a budget, and told apart in requests, replies and metrics.
#include "server/models.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/answers.hpp"
#include "server/api.hpp"

namespace attacca::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

llm::EngineOptions engine_options() {
  llm::EngineOptions options;
  options.device = Device::host_serial();
  options.slots = 2;
  options.context = 64;
  return options;
}

const std::string kLlama = "tests/engine/fixtures/llama";
const std::string kQwen = "tests/engine/fixtures/qwen3";

/// What the models log, a line each.
class Lines {
 public:
  void add(const std::string& line) {
    {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    }
    arrived_.notify_all();
  }
  bool has(const std::string& part) {
    const std::lock_guard lock(mutex_);
    return has_now(part);
  }
  /// Waits for a line that has `part`.
  void expect(const std::string& part) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(arrived_.wait_for(lock, std::chrono::minutes(1), [&] { return has_now(part); }))
        << part;
  }

 private:
  bool has_now(const std::string& part) const {
    return std::any_of(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::string> lines_;
};

class ModelsTest : public testing::Test {
 protected:
  ModelsOptions options() {
    return {.slots = 2, .most_waiting = 4, .log = [this](const std::string& l) { lines_.add(l); }};
  }
  std::vector<ModelSource> sources() {
    return {source_of("small", "", engine_options()), source_of("llama", kLlama, engine_options()),
            source_of("qwen", kQwen, engine_options())};
  }
  static std::string body_for(const std::string& model, const std::string& fields = {}) {
    return R"({"model": ")" + model +
           R"(", "prompt": [1, 2, 3], "max_tokens": 8, "temperature": 0, "logprobs": 0)" + fields +
           "}";
  }
  static std::vector<std::string> states_of(Api& api) {
    std::vector<std::string> states;
    const json list = json::parse(answer_of(api, "GET", "/v1/models", "")->body)["data"];
    for (const json& model : list)
      states.push_back(model["id"].get<std::string>() + " " + model["state"].get<std::string>());
    return states;
  }

  Lines lines_;
};

TEST_F(ModelsTest, are_loaded_when_they_are_asked_for_and_answer_as_they_do_alone) {
  Models models(sources(), options());
  Api api(models);
  EXPECT_THAT(states_of(api), ElementsAre("small unloaded", "llama unloaded", "qwen unloaded"));
  for (const auto& [name, path] : {std::pair{"llama", kLlama}, std::pair{"qwen", kQwen}}) {
    const auto answer = answer_of(api, "POST", "/v1/embeddings",
                                  R"({"input": [1, 2, 3], "model": ")" + std::string(name) + "\"}");
    ASSERT_EQ(answer->status, 200) << answer->body;
    const json reply = json::parse(answer->body);
    EXPECT_EQ(reply["model"], name);
    llm::Engine alone(llm::Model(path), engine_options());
    llm::Request request{.tokens = {1, 2, 3}};
    request.embed = llm::Pooling::last;
    const std::vector<float> expected = alone.generate(request).embedding;
    EXPECT_EQ(reply["data"][0]["embedding"].size(), expected.size());
    const double ratio = reply["data"][0]["embedding"][0].get<double>() / expected[0];
    EXPECT_NEAR(reply["data"][0]["embedding"][1].get<double>() / expected[1], ratio, 1e-5);
  }
  EXPECT_THAT(states_of(api), ElementsAre("small unloaded", "llama loaded", "qwen loaded"));
  const std::string page = answer_of(api, "GET", "/metrics", "")->body;
  EXPECT_THAT(page, HasSubstr("attacca_model_loaded{model_name=\"small\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prompt_tokens_total{model_name=\"llama\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prompt_tokens_total{model_name=\"qwen\"} 3\n"));
  const json steps = json::parse(answer_of(api, "GET", "/steps", "")->body)["steps"];
  EXPECT_EQ(steps.front()["model"], "llama");
  EXPECT_EQ(steps.back()["model"], "qwen");
}

TEST_F(ModelsTest, who_asks_for_a_model_that_is_not_there_is_told_which_there_are) {
  Models models(sources(), options());
  Api api(models);
  const auto missing = answer_of(api, "POST", "/v1/completions", body_for("gpt"));
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(json::parse(missing->body)["error"]["code"], "model_not_found");
  EXPECT_THAT(missing->body, HasSubstr("'small', 'llama', 'qwen'"));
  const auto unnamed = answer_of(api, "POST", "/v1/completions", R"({"prompt": [1]})");
  EXPECT_EQ(unnamed->status, 400);
  EXPECT_THAT(unnamed->body, HasSubstr("'small', 'llama', 'qwen'"));
  EXPECT_THAT(states_of(api), ElementsAre("small unloaded", "llama unloaded", "qwen unloaded"));
}

TEST_F(ModelsTest, are_loaded_and_unloaded_when_asked) {
  Models models(sources(), options());
  Api api(models);
  EXPECT_EQ(answer_of(api, "POST", "/v1/models/load", R"({"model": "small"})")->status, 200);
  EXPECT_EQ(states_of(api).front(), "small loaded");
  const json listed = json::parse(answer_of(api, "GET", "/v1/models", "")->body)["data"];
  EXPECT_EQ(listed[0]["max_model_len"], 64);
  EXPECT_EQ(listed[0]["memory_bytes"], models.take("small")->engine().memory().total());
  EXPECT_FALSE(listed[1].contains("max_model_len"));
  const auto in_use = models.take("small");
  const auto refused = answer_of(api, "POST", "/v1/models/unload", R"({"model": "small"})");
  EXPECT_EQ(refused->status, 409);
  EXPECT_THAT(refused->body, HasSubstr("is in use"));
  EXPECT_EQ(states_of(api).front(), "small loaded");
}

TEST_F(ModelsTest, that_nobody_uses_are_unloaded_when_asked_and_answer_again) {
  Models models(sources(), options());
  Api api(models);
  const std::string body = body_for("small");
  const auto text_of = [&] {
    const auto answer = answer_of(api, "POST", "/v1/completions", body);
    return json::parse(answer->body)["choices"][0]["text"].get<std::string>();
  };
  const std::string first = text_of();
  EXPECT_EQ(answer_of(api, "POST", "/v1/models/unload", R"({"model": "small"})")->status, 200);
  EXPECT_EQ(states_of(api).front(), "small unloaded");
  EXPECT_EQ(answer_of(api, "POST", "/v1/models/unload", R"({"model": "small"})")->status, 200);
  EXPECT_EQ(text_of(), first);
  EXPECT_THAT(answer_of(api, "GET", "/metrics", "")->body,
              HasSubstr("vllm:generation_tokens_total{model_name=\"small\"} 16\n"))
      << "counts go on";
}

TEST_F(ModelsTest, without_a_request_for_long_are_unloaded) {
  ModelsOptions with = options();
  with.unload_after = std::chrono::milliseconds(1);
  Models models(sources(), with);
  models.load_now("llama");
  lines_.expect("llama is unloaded because nobody used it");
  EXPECT_EQ(models.list()[1].state, ModelState::unloaded);
  EXPECT_EQ(models.list()[1].bytes, 0u);
}

/// Bytes that a fixture takes, with the pool that a limit gives it.
std::size_t bytes_of(const std::string& path) {
  llm::EngineOptions options = engine_options();
  options.memory_limit = std::size_t{1} << 30;
  return llm::Engine(llm::Model(path), options).memory().total();
}

TEST_F(ModelsTest, beyond_the_budget_take_the_place_of_the_one_used_least_recently) {
  ModelsOptions with = options();
  with.memory = bytes_of("") + bytes_of(kLlama) + bytes_of(kLlama) / 4;
  Models models(sources(), with);
  Api api(models);
  models.load_now("small");
  models.load_now("llama");
  EXPECT_THAT(states_of(api), ElementsAre("small loaded", "llama loaded", "qwen unloaded"));
  models.take("small");  // now llama's last use is longer ago
  models.load_now("qwen");
  lines_.expect("llama is unloaded to make room");
  EXPECT_THAT(states_of(api), ElementsAre("small loaded", "llama unloaded", "qwen loaded"));
}

TEST_F(ModelsTest, that_do_not_fit_beside_those_in_use_are_refused_with_the_figures) {
  ModelsOptions with = options();
  with.memory = bytes_of("") + bytes_of(kLlama) / 4;
  Models models(sources(), with);
  Api api(models);
  models.load_now("small");
  const auto in_use = models.take("small");
  const auto refused = answer_of(api, "POST", "/v1/completions", body_for("llama"));
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(json::parse(refused->body)["error"]["code"], "model_does_not_fit");
  EXPECT_THAT(refused->body, HasSubstr("'llama': the model does not fit"));
  EXPECT_THAT(refused->body, HasSubstr("'small' takes"));
  EXPECT_THAT(refused->body, HasSubstr("models may take"));
  EXPECT_THAT(states_of(api), ElementsAre("small loaded", "llama unloaded", "qwen unloaded"));
}

TEST_F(ModelsTest, that_cannot_be_read_fail_alone_and_may_be_tried_again) {
  std::vector<ModelSource> from = sources();
  bool is_broken = true;
  from[1].load = [&, load = from[1].load](const LoadTerms& terms) {
    if (is_broken) throw BadArgument("the file is gone");
    return load(terms);
  };
  Models models(std::move(from), options());
  Api api(models);
  const std::string body = R"({"input": [1, 2, 3], "model": "llama"})";
  const auto refused = answer_of(api, "POST", "/v1/embeddings", body);
  EXPECT_EQ(refused->status, 503);
  EXPECT_THAT(refused->body, HasSubstr("could not be loaded: the file is gone"));
  lines_.expect("llama could not be loaded: the file is gone");
  EXPECT_EQ(answer_of(api, "POST", "/v1/completions", body_for("small"))->status, 200);
  is_broken = false;
  EXPECT_EQ(answer_of(api, "POST", "/v1/embeddings", body)->status, 200);
}

TEST_F(ModelsTest, that_cannot_be_loaded_now_tell_the_caller_and_not_the_log_too) {
  std::vector<ModelSource> from = sources();
  from[1].load = [](const LoadTerms&) -> LoadedModel { throw BadArgument("the file is gone"); };
  Models models(std::move(from), options());
  EXPECT_THAT([&] { models.load_now("llama"); },
              testing::ThrowsMessage<BadArgument>("the file is gone"));
  EXPECT_FALSE(lines_.has("could not be loaded"));
}

TEST_F(ModelsTest, are_found_by_their_names_before_the_aliases_of_others) {
  std::vector<ModelSource> from = sources();
  from[0].aliases = {"qwen", "embedded"};
  Models models(std::move(from), options());
  models.load_now("qwen");
  models.load_now("embedded");
  EXPECT_EQ(models.take("qwen")->name(), "qwen");
  EXPECT_EQ(models.take("embedded")->name(), "small");
}

TEST_F(ModelsTest, of_one_name_are_refused) {
  std::vector<ModelSource> from = sources();
  from[2].name = "small";
  EXPECT_THROW(Models(std::move(from), options()), BadArgument);
}

TEST_F(ModelsTest, asked_for_at_once_within_a_budget_for_one_answer_or_refuse) {
  ModelsOptions with = options();
  with.most_waiting = 64;
  with.memory = std::max(bytes_of(""), bytes_of(kLlama)) * 5 / 4;
  Models models(sources(), with);
  Api api(models);
  std::atomic<int> answered = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 6; ++client)
    clients.emplace_back([&, client] {
      const std::string model = client % 2 == 0 ? "small" : "llama";
      for (int round = 0; round < 5; ++round) {
        const auto answer = answer_of(api, "POST", "/v1/embeddings",
                                      R"({"input": [1, 2, 3], "model": ")" + model + "\"}");
        EXPECT_TRUE(answer->status == 200 || answer->status == 503) << answer->body;
        answered += answer->status == 200;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_GT(answered, 0);
  for (const char* model : {"small", "llama"})
    EXPECT_EQ(
        answer_of(api, "POST", "/v1/models/unload", R"({"model": ")" + std::string(model) + "\"}")
            ->status,
        200)
        << "nobody uses it any more";
}

}  // namespace
}  // namespace attacca::server
