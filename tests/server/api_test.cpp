// Tests of the endpoints without a socket, above all of what goes wrong: steps that fail, clients
// that leave early, batches with a wrong prompt.
#include "server/api.hpp"
#include "server/faulty_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "server/answers.hpp"

namespace attacca::server {
namespace {

using testing::HasSubstr;
using testing::Not;

class ApiTest : public testing::Test {
 protected:
  ApiTest() { models_.load_now("small"); }
  std::shared_ptr<Answer> ask(const std::string& method, const std::string& path,
                              const std::string& body = {}, bool has_left = false) {
    return answer_of(api_, method, path, body, has_left);
  }
  std::shared_ptr<Answer> complete(const std::string& fields, bool has_left = false) {
    return ask("POST", "/v1/completions", "{\"max_tokens\": 4, " + fields + "}", has_left);
  }

  std::shared_ptr<test::Faults> faults_ = std::make_shared<test::Faults>();
  std::promise<std::string> lost_;
  std::once_flag is_lost_;
  Models models_{{source_of("small", "", faulty_options(faults_))},
                 {.slots = 2, .most_waiting = 4, .on_lost = [this](const std::string& loss) {
                    std::call_once(is_lost_, [&] { lost_.set_value(loss); });
                  }}};
  Api api_{models_};
};

TEST_F(ApiTest, a_step_that_fails_is_a_500_and_the_next_request_works) {
  faults_->launches = {test::Faults::Kind::throws};
  const auto failed = complete(R"("prompt": "Once")");
  EXPECT_EQ(failed->status, 500);
  EXPECT_THAT(failed->body, HasSubstr("server_error"));
  EXPECT_THAT(failed->body, HasSubstr("failed a launch"));
  EXPECT_EQ(complete(R"("prompt": "Once")")->status, 200);
}

TEST_F(ApiTest, a_step_that_fails_is_an_event_of_a_stream) {
  faults_->launches = {test::Faults::Kind::throws};
  const auto failed = complete(R"("prompt": "Once", "stream": true)");
  EXPECT_EQ(failed->status, 200);
  EXPECT_THAT(failed->body, HasSubstr(R"(data: {"error":{"message":)"));
  EXPECT_THAT(failed->body, testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(ApiTest, a_lost_device_is_told_to_those_who_ask_for_health) {
  EXPECT_EQ(ask("GET", "/health")->status, 200);
  faults_->is_lost = true;
  EXPECT_GE(complete(R"("prompt": "Once")")->status, 500);
  EXPECT_EQ(complete(R"("prompt": "Once")")->status, 503);
  EXPECT_EQ(ask("GET", "/health")->status, 503);
  auto loss = lost_.get_future();
  ASSERT_EQ(loss.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_THAT(loss.get(), HasSubstr("the faulty device failed a launch"));
}

TEST_F(ApiTest, a_batch_with_a_wrong_prompt_is_refused_whole) {
  std::string words;
  for (int i = 0; i < 100; ++i) words += "word ";
  for (const char* stream : {"false", "true"}) {
    const auto answer = complete(R"("prompt": ["Once", ")" + words + R"("], "stream": )" + stream);
    EXPECT_EQ(answer->status, 400);
    EXPECT_THAT(answer->body, HasSubstr("invalid_request_error"));
  }
  models_.take("")->engine().wait_until_idle();
  EXPECT_EQ(complete(R"("prompt": "Once", "n": 2)")->status, 200);
}

TEST_F(ApiTest, a_reply_has_the_response_format_that_was_asked_for) {
  const auto ask_for = [&](const std::string& format) {
    const auto answer =
        ask("POST", "/v1/chat/completions",
            R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40, "n": 2,
            "response_format": )" +
                format + "}");
    EXPECT_EQ(answer->status, 200) << answer->body;
    std::vector<std::string> texts;
    const auto reply = nlohmann::json::parse(answer->body);
    for (const auto& choice : reply["choices"]) {
      EXPECT_EQ(choice["finish_reason"], "stop");
      texts.push_back(choice["message"]["content"]);
    }
    return texts;
  };
  EXPECT_THAT(ask_for(R"({"type": "json_schema", "json_schema": {"name": "colour", "strict": true,
                      "schema": {"enum": ["red", "green"]}}})"),
              testing::Each(testing::AnyOf("\"red\"", "\"green\"")));
  EXPECT_THAT(ask_for(R"({"type": "regex", "pattern": "(yes|no)!"})"),
              testing::Each(testing::AnyOf("yes!", "no!")));
}

TEST_F(ApiTest, a_response_format_that_cannot_be_used_is_a_400_that_names_the_field) {
  const auto refused = complete(
      R"("prompt": "Once", "response_format": {"type": "json_schema", "json_schema": {"schema":
      {"properties": {"a": {"not": {}}}}}})");
  EXPECT_EQ(refused->status, 400);
  const auto error = nlohmann::json::parse(refused->body)["error"];
  EXPECT_EQ(error["param"], "response_format.json_schema.schema");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("'#/properties/a/not'"));
  EXPECT_THAT(
      complete(R"("prompt": "Once", "response_format": {"type": "regex", "pattern": "("})")->body,
      HasSubstr(R"("param":"response_format.pattern")"));
  EXPECT_THAT(complete(R"("prompt": "Once", "ignore_eos": true,
                       "response_format": {"type": "json_object"})")
                  ->body,
              HasSubstr(R"("param":"response_format")"));
  EXPECT_THAT(ask("GET", "/metrics")->body,
              HasSubstr("attacca_sequences_admitted{model_name=\"small\"} 0\n"));
}

TEST_F(ApiTest, a_client_that_left_early_takes_no_slot) {
  const auto answer = complete(R"("prompt": "Once", "n": 2)", true);
  EXPECT_EQ(answer->status, 0);
  EXPECT_FALSE(answer->is_complete);
  EXPECT_EQ(models_.take("")->engine().stats().steps, 0u);
  EXPECT_THAT(ask("GET", "/metrics")->body,
              HasSubstr("attacca_sequences_admitted{model_name=\"small\"} 0\n"));
}

TEST_F(ApiTest, while_it_drains_it_is_healthy_and_not_ready) {
  api_.drain();
  EXPECT_EQ(complete(R"("prompt": "Once")")->status, 503);
  EXPECT_EQ(ask("GET", "/ready")->status, 503);
  EXPECT_EQ(ask("GET", "/health")->status, 200);
}

TEST_F(ApiTest, a_model_is_shown_by_its_name) {
  const auto shown = ask("GET", "/v1/models/small");
  EXPECT_EQ(shown->status, 200);
  EXPECT_EQ(nlohmann::json::parse(shown->body),
            nlohmann::json::parse(ask("GET", "/v1/models")->body)["data"][0]);
  EXPECT_EQ(ask("GET", "/v1/models/sm%61ll")->status, 200);
  EXPECT_EQ(ask("POST", "/v1/models/small")->status, 405);
}

TEST_F(ApiTest, a_model_that_is_not_there_is_a_404_that_names_those_that_are) {
  for (const auto& [path, name] :
       {std::pair{"/v1/models/org%2Flarge", "'org/large'"},
        std::pair{"/v1/models/org/large", "'org/large'"}, std::pair{"/v1/models/100%", "'100%'"},
        std::pair{"/v1/models/%zz", "'%zz'"}}) {
    const auto refused = ask("GET", path);
    EXPECT_EQ(refused->status, 404);
    const auto error = nlohmann::json::parse(refused->body)["error"];
    EXPECT_EQ(error["code"], "model_not_found");
    EXPECT_EQ(error["message"],
              "there is no model " + std::string(name) + "; this server has 'small'");
  }
}

TEST_F(ApiTest, a_path_takes_its_method_only) {
  for (const auto& [method, path, allowed] :
       {std::tuple{"DELETE", "/v1/models", "GET, HEAD"}, std::tuple{"GET", "/tokenize", "POST"}}) {
    const auto refused = ask(method, path);
    EXPECT_EQ(refused->status, 405);
    EXPECT_THAT(refused->headers, testing::Contains(testing::Pair("Allow", allowed)));
  }
  EXPECT_EQ(ask("GET", "/v1/models/")->status, 404);
  EXPECT_EQ(ask("HEAD", "/version")->status, 200);
  EXPECT_THAT(ask("GET", "/metrics")->body, Not(HasSubstr("/v1/models/")));
}

}  // namespace
}  // namespace attacca::server
