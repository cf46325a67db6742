// Tests of tools from the request to the reply, with a random model that has the chat template of a
// model which calls tools. What it writes makes no sense, unless it must be a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/small_model.hpp"
#include "server/answers.hpp"
#include "server/api.hpp"

namespace attacca::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A character as UTF-8. REQUIRES: it is below U+0800.
std::string utf8(int code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// A token for each byte, written as GPT-2 writes bytes, and those of a chat.
json byte_tokenizer() {
  json vocabulary;
  int others = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    vocabulary[utf8(is_itself ? byte : others++)] = byte + 3;
  }
  json added = json::array();
  const auto add = [&](int id, const char* text, bool is_special) {
    added.push_back({{"id", id}, {"content", text}, {"special", is_special}});
  };
  add(1, "<|im_start|>", true);
  add(2, "<|im_end|>", true);
  add(270, "<tool_call>", false);
  add(271, "</tool_call>", false);
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"added_tokens", added},
          {"pre_tokenizer", bytes},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
}

/// Writes a random model with a chat template of tests/text/fixtures/chat.
void write_model(const test::TemporaryFolder& folder, const std::string& chat_template) {
  const std::string from = "tests/engine/fixtures/llama/";
  std::filesystem::copy(from + "model.safetensors", folder.path());
  json config = json::parse(std::ifstream(from + "config.json"));
  config["max_position_embeddings"] = 4096;
  folder.write("config.json", config.dump());
  folder.write("tokenizer.json", byte_tokenizer().dump());
  std::filesystem::copy("tests/text/fixtures/chat/" + chat_template + ".jinja",
                        folder.path() / "chat_template.jinja");
}

TEST(ToolFormat, is_told_by_the_chat_template) {
  using llm::ToolFormat;
  const std::pair<const char*, ToolFormat> all[] = {
      {"qwen3", ToolFormat::qwen},      {"qwen3_training", ToolFormat::qwen},
      {"llama3_1", ToolFormat::llama3}, {"llama3_2", ToolFormat::llama3},
      {"llama3", ToolFormat::none},     {"chatml", ToolFormat::none},
      {"smollm2", ToolFormat::none},    {"glm4moe", ToolFormat::none},
      {"gptoss", ToolFormat::none},     {"mistral_v2v3", ToolFormat::none},
      {"phi_4", ToolFormat::none},      {"deepseek_r1_distill", ToolFormat::none}};
  for (const auto& [name, format] : all) {
    const test::TemporaryFolder folder;
    write_model(folder, name);
    EXPECT_EQ(llm::Model(folder.path()).tool_format(), format) << name;
  }
}

/// The name of a chat template.
class ToolsTest : public testing::TestWithParam<const char*> {
 protected:
  ToolsTest() {
    write_model(folder_, GetParam());
    llm::EngineOptions options;
    options.device = Device::host_serial();
    options.slots = 2;
    models_ = std::make_unique<Models>(std::vector{source_of("small", folder_.path(), options)},
                                       ModelsOptions{.slots = options.slots, .most_waiting = 4});
    api_ = std::make_unique<Api>(*models_);
  }
  std::string ask(const std::string& fields) {
    const auto answer = answer_of(*api_, "POST", "/v1/chat/completions",
                                  R"({"tools": [{"type": "function", "function": {"name": "weather",
        "description": "The weather", "parameters": {"properties": {"days": {"$ref": "#/$defs/days"},
        "city": {"enum": ["Bern", "Zürich"]}}, "required": ["days", "city"],
        "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}}}},
        {"type": "function", "function": {"name": "time"}}], )" +
                                      fields + "}");
    EXPECT_EQ(answer->status, 200) << answer->body;
    return answer->body;
  }
  static void expect_call(const json& call) {
    EXPECT_THAT(call["id"].get<std::string>(), testing::StartsWith("call-"));
    EXPECT_EQ(call["type"], "function");
    const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
    if (call["function"]["name"] == "time") {
      EXPECT_EQ(arguments, json::object());
      return;
    }
    EXPECT_EQ(call["function"]["name"], "weather");
    EXPECT_TRUE(arguments["days"] >= 1 && arguments["days"] <= 9) << arguments;
    EXPECT_TRUE(arguments["city"] == "Bern" || arguments["city"] == "Zürich") << arguments;
  }

  const std::string hello_ = R"("messages": [{"role": "user", "content": "Hi"}])";
  test::TemporaryFolder folder_;
  std::unique_ptr<Models> models_;
  std::unique_ptr<Api> api_;
};
INSTANTIATE_TEST_SUITE_P(, ToolsTest, testing::Values("qwen3", "llama3_1"),
                         [](const auto& given) { return std::string(given.param); });

TEST_P(ToolsTest, a_call_that_is_required_is_valid) {
  const json reply = json::parse(ask(hello_ + R"(, "tool_choice": "required", "n": 6)"));
  for (const json& choice : reply["choices"]) {
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_TRUE(choice["message"]["content"].is_null());
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
    expect_call(choice["message"]["tool_calls"][0]);
  }
}

TEST_P(ToolsTest, parameters_that_cannot_be_used_are_refused_with_their_tool_and_own_pointer) {
  const auto refusal_of = [&](const std::string& parameters) {
    const auto answer = answer_of(
        *api_, "POST", "/v1/chat/completions",
        R"({"tools": [{"type": "function", "function": {"name": "time"}},
        {"type": "function", "function": {"name": "weather", "parameters": )" +
            parameters +
            R"(}}], "tool_choice": {"type": "function", "function": {"name": "weather"}}, )" +
            hello_ + "}");
    EXPECT_EQ(answer->status, 400) << answer->body;
    const json error = json::parse(answer->body)["error"];
    EXPECT_EQ(error["param"], "tools[1].function.parameters");
    const std::string message = error["message"];
    EXPECT_THAT(message, HasSubstr("the tool 'weather'"));
    EXPECT_THAT(message, testing::Not(HasSubstr("anyOf")));
    return message;
  };
  EXPECT_THAT(refusal_of(R"({"properties": {"days": {"not": {}}}})"),
              HasSubstr("at '#/properties/days/not'"));
  EXPECT_THAT(refusal_of(R"({"properties": {"days": {"$ref": "#/$defs/none"}}})"),
              HasSubstr("'#/properties/days/$ref'"));
  refusal_of(R"({"type": "string"})");
  refusal_of(R"({"enum": ["a"]})");
  refusal_of(R"({"$ref": "#/$defs/text", "$defs": {"text": {"type": "string"}}})");
}

TEST_P(ToolsTest, a_function_that_is_named_is_called_in_a_stream_too) {
  const std::string fields = hello_ + R"(, "seed": 5, "stream": true,
      "tool_choice": {"type": "function", "function": {"name": "weather"}})";
  const std::string body = ask(fields);
  json whole;
  std::size_t deltas = 0;
  std::string reason;
  for (std::size_t at = 0; (at = body.find("data: {", at)) != std::string::npos; ++at) {
    const json event = json::parse(body.substr(at + 6, body.find("\n\n", at) - at - 6));
    const json& choice = event["choices"][0];
    if (choice["delta"].contains("tool_calls"))
      for (const json& delta : choice["delta"]["tool_calls"]) {
        EXPECT_EQ(delta["index"], 0);
        if (deltas++ == 0)
          whole = delta;
        else
          whole["function"]["arguments"] = whole["function"]["arguments"].get<std::string>() +
                                           delta["function"]["arguments"].get<std::string>();
      }
    EXPECT_EQ(choice["delta"].value("content", ""), "");
    if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
  }
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_GT(deltas, 10u) << "its tokens are bytes";
  EXPECT_EQ(whole["function"]["name"], "weather");
  expect_call(whole);
}

TEST_P(ToolsTest, calls_and_their_results_go_back_to_the_model) {
  const std::string messages = R"("messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
       "function": {"name": "weather", "arguments": "{\"days\": 2}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "blue sky"}])";
  EXPECT_THAT(ask(messages + R"(, "max_tokens": 4)"), HasSubstr(R"("role":"assistant")"));
  const std::vector<llm::Message> turns = {
      {"user", "Hi"},
      {.role = "assistant", .content = "", .tool_calls = {{"1", "weather", R"({"days": 2})"}}},
      {.role = "tool", .content = "blue sky", .tool_call_id = "1"}};
  const llm::Model model(folder_.path());
  const std::string text = model.detokenize(model.chat(turns, R"([{"name": "weather"}])"));
  EXPECT_THAT(text, HasSubstr(R"({"name": "weather", )"));
  EXPECT_THAT(text, HasSubstr(R"({"days": 2})"));
  EXPECT_THAT(text, HasSubstr("blue sky"));
}

}  // namespace
}  // namespace attacca::server
