// Tests of how bodies of completion requests are read: every field, and every wrong one by name.
#include "server/openai_requests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "server/request_error.hpp"

namespace attacca::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Tokens = std::vector<std::int32_t>;

const RequestRules kRules = {
    .vocabulary = 100, .longest_sequence = 1024, .sampling = default_sampling({})};

/// `fields`: ", \"n\": 2", behind a message or a prompt.
GenerationRequest chat(const std::string& fields, const RequestRules& rules = kRules) {
  return read_chat_request(
      RequestBody(R"({"messages": [{"role": "user", "content": "Hi"}])" + fields + "}"), rules, 77);
}
GenerationRequest text(const std::string& fields, const RequestRules& rules = kRules) {
  return read_text_request(RequestBody(R"({"prompt": "Once")" + fields + "}"), rules, 77);
}

template <class Work>
RequestError refusal_of(const Work& work) {
  try {
    work();
  } catch (const RequestError& error) {
    return error;
  }
  return RequestError(0, "nothing was refused");
}

TEST(ChatRequest, has_openais_defaults_where_fields_are_absent) {
  const GenerationRequest read = chat("");
  EXPECT_TRUE(read.is_chat);
  EXPECT_FALSE(read.streams);
  ASSERT_EQ(read.choices(), 1u);
  const llm::Request request = read.choice(0);
  EXPECT_EQ(request.messages.front().role, "user");
  EXPECT_EQ(request.messages.front().content, "Hi");
  EXPECT_EQ(request.max_tokens, 1024u);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_p, 1);
  EXPECT_EQ(request.sampling.seed, 77u);
  EXPECT_FALSE(request.logprobs);
}

TEST(ChatRequest, takes_the_models_advice_where_fields_are_absent) {
  RequestRules rules = kRules;
  rules.sampling = default_sampling({.temperature = 0.6f, .top_k = 20, .top_p = 0.95f});
  const llm::Sampling sampling = chat(R"(, "top_k": 5)", rules).choice(0).sampling;
  EXPECT_EQ(sampling.temperature, 0.6f);
  EXPECT_EQ(sampling.top_p, 0.95f);
  EXPECT_EQ(sampling.top_k, 5);
}

TEST(ChatRequest, reads_every_field) {
  const GenerationRequest read =
      chat(R"(, "model": "attacca-small", "temperature": 0.5, "top_p": 0.9,
      "top_k": 40, "min_p": 0.1, "presence_penalty": -1, "frequency_penalty": 2,
      "repetition_penalty": 1.5, "seed": 9, "stop": ["a", "b"], "stop_token_ids": [3, 4],
      "ignore_eos": true, "max_completion_tokens": 12, "max_tokens": 99, "logprobs": true,
      "top_logprobs": 4, "logit_bias": {"5": -100, "7": 1.5}, "n": 3, "stream": true,
      "stream_options": {"include_usage": true}, "user": "me", "response_format": {"type": "text"},
      "tools": [], "tool_choice": "none", "wibble": {"is": ["tolerated"]})");
  EXPECT_TRUE(read.streams);
  EXPECT_TRUE(read.includes_usage);
  EXPECT_EQ(read.choices(), 3u);
  const llm::Request request = read.choice(2);
  const llm::Sampling& sampling = request.sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.1f);
  EXPECT_EQ(sampling.presence_penalty, -1);
  EXPECT_EQ(sampling.frequency_penalty, 2);
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.seed, 11u);
  EXPECT_THAT(sampling.bias, ElementsAre(Pair(5, -100.f), Pair(7, 1.5f)));
  EXPECT_THAT(request.stop, ElementsAre("a", "b"));
  EXPECT_THAT(request.stop_tokens, ElementsAre(3, 4));
  EXPECT_TRUE(request.ignores_end);
  EXPECT_EQ(request.max_tokens, 12u);
  EXPECT_EQ(request.logprobs, 4u);
}

TEST(ChatRequest, joins_the_text_parts_of_a_message) {
  const GenerationRequest read =
      read_chat_request(RequestBody(R"({"messages": [{"role": "developer", "content": "Be brief."},
          {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
          {"role": "assistant"}]})"),
                        kRules, 0);
  const auto& messages = read.prompts.front().messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].content, "ab");
  EXPECT_EQ(messages[2].content, "");
}

TEST(ChatRequest, a_null_counts_as_absent) {
  EXPECT_EQ(chat(R"(, "temperature": null, "stop": null, "n": null, "tools": null)").choices(), 1u);
}

TEST(ChatRequest, minus_one_and_zero_keep_all_tokens_in_top_k) {
  EXPECT_EQ(chat(R"(, "top_k": -1)").choice(0).sampling.top_k, 0);
  EXPECT_EQ(chat(R"(, "top_k": 0)").choice(0).sampling.top_k, 0);
}

TEST(ChatRequest, a_negative_seed_is_a_seed) {
  EXPECT_EQ(chat(R"(, "seed": -1)").choice(0).sampling.seed, ~std::uint64_t{0});
}

TEST(ResponseFormat, is_the_grammar_of_a_chat_and_of_a_text) {
  using llm::GrammarKind;
  const auto grammar = [](const std::string& format) {
    const std::string field = R"(, "response_format": )" + format;
    const llm::Grammar result = chat(field).choice(0).grammar;
    EXPECT_EQ(text(field).choice(0).grammar, result);
    return result;
  };
  EXPECT_EQ(grammar("null").kind, GrammarKind::none);
  EXPECT_EQ(grammar(R"({"type": "text"})").kind, GrammarKind::none);
  EXPECT_EQ(grammar(R"({"type": "json_object"})").kind, GrammarKind::json_object);
  EXPECT_EQ(grammar(R"({"type": "regex", "pattern": "a+"})"),
            (llm::Grammar{GrammarKind::regex, "a+"}));
  EXPECT_EQ(grammar(R"({"type": "json_schema", "json_schema": {"name": "n", "strict": true,
                "schema": {"type": "null"}}})"),
            (llm::Grammar{GrammarKind::json_schema, R"({"type":"null"})"}));
}

TEST(ResponseFormat, keeps_the_order_of_a_schemas_keys) {
  const GenerationRequest read = chat(
      R"(, "zebra": {"response_format": {"b": 1, "a": 1}}, "response_format": {"type": "json_schema",
      "json_schema": {"schema": {"properties": {"z": {}, "a": {}, "m": {}}}}}, "user": "me")");
  EXPECT_EQ(read.choice(0).grammar.text, R"({"properties":{"z":{},"a":{},"m":{}}})");
  EXPECT_EQ(read.grammar_field, "response_format.json_schema.schema");
}

const RequestRules kWithTools = {.vocabulary = 100,
                                 .longest_sequence = 1024,
                                 .sampling = default_sampling({}),
                                 .tool_format = llm::ToolFormat::qwen};
const std::string kTools =
    R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties":
    {"z": {"$ref": "#/$defs/n"}, "a": {}}, "$defs": {"n": {"type": "null"}}}}},
    {"type": "function", "function": {"name": "g"}}])";

TEST(Tools, reach_the_template_and_the_model_decides) {
  const GenerationRequest read = chat(kTools, kWithTools);
  EXPECT_EQ(read.tool_format, llm::ToolFormat::qwen);
  const llm::Request request = read.choice(0);
  EXPECT_THAT(request.tools, HasSubstr(R"("properties":{"z":{"$ref":"#/$defs/n"},"a":{}})"));
  EXPECT_EQ(request.grammar, llm::Grammar());
  EXPECT_EQ(chat(kTools + R"(, "tool_choice": "auto")", kWithTools).choice(0).tools, request.tools);
  const GenerationRequest none = chat(kTools + R"(, "tool_choice": "none")", kWithTools);
  EXPECT_EQ(none.choice(0).tools, "");
  EXPECT_EQ(none.tool_format, llm::ToolFormat::none);
}

TEST(Tools, are_called_one_at_a_time_if_the_request_says_so) {
  const auto stops = [](const std::string& fields) {
    return chat(kTools + fields, kWithTools).choice(0).stop;
  };
  EXPECT_THAT(stops(R"(, "parallel_tool_calls": false, "stop": "a")"),
              ElementsAre("a", "</tool_call>"));
  EXPECT_THAT(stops(R"(, "parallel_tool_calls": true)"), testing::IsEmpty());
  EXPECT_THAT(stops(R"(, "parallel_tool_calls": false, "tool_choice": "required")"),
              testing::IsEmpty())
      << "one call is the whole reply";
}

TEST(Tools, that_must_be_called_are_the_grammar) {
  const auto grammar = [](const std::string& choice, llm::ToolFormat format) {
    RequestRules rules = kWithTools;
    rules.tool_format = format;
    return chat(kTools + R"(, "tool_choice": )" + choice, rules).choice(0).grammar;
  };
  const llm::Grammar any = grammar("\"required\"", llm::ToolFormat::qwen);
  EXPECT_EQ(any.kind, llm::GrammarKind::json_schema);
  EXPECT_EQ(any.before, "<tool_call>\n");
  EXPECT_EQ(any.after, "\n</tool_call>");
  EXPECT_THAT(any.text, HasSubstr(R"("name":{"const":"f"})"));
  EXPECT_THAT(any.text, HasSubstr(R"("name":{"const":"g"})"));
  EXPECT_THAT(any.text, HasSubstr(R"({"$ref":"#/anyOf/0/properties/arguments/$defs/n"})"));
  const std::string g = R"({"type": "function", "function": {"name": "g"}})";
  EXPECT_EQ(
      grammar(g, llm::ToolFormat::llama3),
      (llm::Grammar{.kind = llm::GrammarKind::json_schema,
                    .text = R"({"anyOf":[{"type":"object","properties":{"name":{"const":"g"},)"
                            R"("parameters":{"type":"object","additionalProperties":false}},)"
                            R"("required":["name","parameters"]}]})"}));
}

TEST(Tools, that_are_wrong_are_refused_by_name) {
  const auto param = [](const std::string& fields) {
    return refusal_of([&] { chat(fields, kWithTools); }).param();
  };
  EXPECT_EQ(param(R"(, "tools": 3)"), "tools");
  EXPECT_EQ(param(R"(, "tools": [3])"), "tools[0]");
  EXPECT_EQ(param(R"(, "tools": [{"type": "web"}])"), "tools[0].type");
  EXPECT_EQ(param(R"(, "tools": [{"type": "function"}])"), "tools[0].function");
  EXPECT_EQ(param(R"(, "tools": [{"type": "function", "function": {}}])"),
            "tools[0].function.name");
  EXPECT_EQ(
      param(R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": 1}}])"),
      "tools[0].function.parameters");
  EXPECT_THAT(refusal_of([] {
                chat(
                    R"(, "tools": [{"type": "function", "function": {"name": "f",
            "parameters": {"type": "string"}}}])",
                    kWithTools);
              }).what(),
              testing::AllOf(HasSubstr("'tools[0].function.parameters' of the tool 'f'"),
                             HasSubstr("a JSON schema of the type object")));
  EXPECT_EQ(param(kTools + R"(, "tool_choice": "maybe")"), "tool_choice");
  EXPECT_EQ(param(kTools + R"(, "tool_choice": {"function": {"name": "h"}})"),
            "tool_choice.function.name");
  EXPECT_EQ(param(kTools + R"(, "response_format": {"type": "json_object"})"), "response_format");
  EXPECT_EQ(refusal_of([] { text(kTools, kWithTools); }).param(), "tools");
}

TEST(Tools, and_their_calls_may_be_in_messages) {
  const auto read = [](const std::string& messages) {
    return read_chat_request(RequestBody(R"({"messages": )" + messages + "}"), kWithTools, 0);
  };
  const auto messages =
      read(R"([{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
      "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "blue"}])")
          .prompts.front()
          .messages;
  ASSERT_EQ(messages.size(), 2u);
  ASSERT_EQ(messages[0].tool_calls.size(), 1u);
  EXPECT_EQ(messages[0].tool_calls[0].name, "f");
  EXPECT_EQ(messages[0].tool_calls[0].arguments, R"({"a": 1})");
  EXPECT_EQ(messages[1].role, "tool");
  EXPECT_EQ(messages[1].tool_call_id, "1");
  const std::string deep = R"("{\"a\":)" + std::string(99, '[') + "\"";
  for (const std::string& arguments : {std::string("3"), std::string(R"("[]")"), deep})
    EXPECT_EQ(
        refusal_of([&] {
          read(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments":)" +
               arguments + "}}]}]");
        }).param(),
        "messages[0].tool_calls[0].function.arguments");
}

TEST(ResponseFormat, a_schema_of_too_many_keys_is_refused_and_other_fields_may_have_them) {
  std::string keys;
  for (int at = 0; at < 20000; ++at) keys += "\"k" + std::to_string(at) + "\":1,";
  const std::string object = "{" + keys + "\"last\":1}";
  const auto format = [](const std::string& schema) {
    return R"(, "response_format": {"type": "json_schema", "json_schema": {"schema": )" + schema +
           "}}";
  };
  EXPECT_EQ(refusal_of([&] { chat(format(object)); }).param(), "response_format");
  EXPECT_EQ(chat(R"(, "metadata": )" + object + format("{}")).choice(0).grammar.text, "{}");
}

TEST(TextRequest, takes_texts_and_tokens_alone_and_in_lists) {
  const auto prompts = [](const std::string& prompt) {
    return read_text_request(RequestBody(R"({"prompt": )" + prompt + "}"), kRules, 0).prompts;
  };
  EXPECT_EQ(prompts(R"("Once")").front().prompt, "Once");
  EXPECT_EQ(prompts("[1, 2]").front().tokens, (Tokens{1, 2}));
  EXPECT_EQ(prompts(R"(["Once", "Twice"])").back().prompt, "Twice");
  EXPECT_EQ(prompts("[[1], [2, 3]]").back().tokens, (Tokens{2, 3}));
  EXPECT_EQ(text("").choice(0).max_tokens, 16u);
  EXPECT_EQ(text(R"(, "logprobs": 0)").choice(0).logprobs, 0u);
}

TEST(ResponseRequest, takes_a_text_or_messages_and_refuses_what_it_does_not_keep) {
  const auto read = [](const std::string& fields) {
    return read_response_request(RequestBody("{" + fields + "}"), kRules, 0);
  };
  const GenerationRequest one = read(
      R"("input": "Hi", "instructions": "Be brief.", "max_output_tokens": 5, "temperature": 0.5,)"
      R"( "tools": [], "store": false, "stream": true)");
  EXPECT_TRUE(one.is_response);
  EXPECT_TRUE(one.streams);
  const llm::Request request = one.choice(0);
  ASSERT_EQ(request.messages.size(), 2u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "Hi");
  EXPECT_EQ(request.max_tokens, 5u);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  const llm::Request parts =
      read(
          R"("input": [{"role": "developer", "content": "Be brief."}, {"type": "message",)"
          R"( "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],)"
          R"( "text": {"format": {"type": "json_schema", "name": "b", "schema": {"type": "null"}}})")
          .choice(0);
  EXPECT_EQ(parts.messages[0].role, "system");
  EXPECT_EQ(parts.messages[1].content, "Hi");
  EXPECT_EQ(parts.grammar.kind, llm::GrammarKind::json_schema);
  EXPECT_EQ(parts.grammar.text, R"({"type":"null"})");
  const auto param = [&](const std::string& fields) {
    return refusal_of([&] { read(fields); }).param();
  };
  EXPECT_EQ(param(R"("messages": [])"), "input");
  EXPECT_EQ(param(R"("input": [{"role": "tool", "content": "a"}])"), "input[0].role");
  EXPECT_EQ(param(R"("input": [{"type": "function_call"}])"), "input[0].type");
  EXPECT_EQ(param(R"("input": "a", "previous_response_id": "r")"), "previous_response_id");
  EXPECT_EQ(param(R"("input": "a", "text": {"format": {"type": "xml"}})"), "text.format.type");
  read(
      R"("input": "a", "tool_choice": "auto", "n": 1, "best_of": 1, "functions": [], "echo": false,)"
      R"( "logprobs": false, "max_tokens": null)");
}

TEST(ResponseRequest, refuses_fields_of_other_endpoints_with_the_remedy) {
  const std::tuple<const char*, const char*, const char*> all[] = {
      {"guided_regex", R"("[0-9]")", "use text.format"},
      {"response_format", R"({"type": "json_object"})", "use text.format"},
      {"max_tokens", "5", "use max_output_tokens"},
      {"max_completion_tokens", "5", "use max_output_tokens"},
      {"functions", R"([{"name": "f"}])", "leave it out"},
      {"function_call", R"({"name": "f"})", "leave it out"},
      {"tool_choice", R"("required")", "leave it out"},
      {"suffix", R"("b")", "leave it out"},
      {"echo", "true", "leave it out"},
      {"audio", "{}", "leave it out"},
      {"n", "2", "leave it out"},
      {"best_of", "2", "leave it out"},
      {"logprobs", "true", "leave it out"},
      {"logprobs", "2", "leave it out"}};
  for (const auto& [key, value, remedy] : all) {
    const std::string body = R"({"input": "a", ")" + std::string(key) + "\": " + value + "}";
    const RequestError error =
        refusal_of([&] { read_response_request(RequestBody(body), kRules, 0); });
    EXPECT_EQ(error.status(), 400) << body;
    EXPECT_EQ(error.param(), key) << body;
    EXPECT_THAT(error.what(), HasSubstr(remedy)) << body;
  }
}

TEST(EmbeddingRequest, takes_texts_and_tokens) {
  const auto read = [](const std::string& fields) {
    return read_embedding_request(RequestBody("{" + fields + "}"), kRules, 0);
  };
  const GenerationRequest one = read(R"("input": "Once", "model": "small", "user": "me")");
  EXPECT_TRUE(one.is_embedding);
  EXPECT_FALSE(one.is_base64);
  EXPECT_EQ(one.choice(0).prompt, "Once");
  EXPECT_EQ(one.choice(0).embed, llm::Pooling::last);
  const GenerationRequest two =
      read(R"("input": [[1], [2, 3]], "pooling": "mean", "encoding_format": "base64")");
  EXPECT_TRUE(two.is_base64);
  ASSERT_EQ(two.choices(), 2u);
  EXPECT_EQ(two.choice(1).tokens, (Tokens{2, 3}));
  EXPECT_EQ(two.choice(1).embed, llm::Pooling::mean);
  const auto param = [&](const std::string& fields) {
    return refusal_of([&] { read(fields); }).param();
  };
  EXPECT_EQ(param(R"("prompt": "a")"), "input");
  EXPECT_EQ(param(R"("input": ["a", 3])"), "input[1]");
  EXPECT_EQ(param(R"("input": "a", "pooling": "max")"), "pooling");
  EXPECT_EQ(param(R"("input": "a", "encoding_format": "hex")"), "encoding_format");
  EXPECT_EQ(param(R"("input": "a", "dimensions": 8)"), "dimensions");
}

TEST(TextRequest, choices_of_one_prompt_stand_together) {
  const GenerationRequest read =
      read_text_request(RequestBody(R"({"prompt": ["a", "b"], "n": 2, "seed": 5})"), kRules, 0);
  ASSERT_EQ(read.choices(), 4u);
  EXPECT_EQ(read.choice(1).prompt, "a");
  EXPECT_EQ(read.choice(1).sampling.seed, 6u);
  EXPECT_EQ(read.choice(2).prompt, "b");
  EXPECT_EQ(read.choice(2).sampling.seed, 5u);
}

struct Wrong {
  std::string fields;
  std::string param;
};

TEST(WrongField, is_refused_by_name) {
  const Wrong all[] = {
      {R"(, "temperature": "hot")", "temperature"},
      {R"(, "temperature": -0.1)", "temperature"},
      {R"(, "temperature": true)", "temperature"},
      {R"(, "top_p": 0)", "top_p"},
      {R"(, "top_p": 1.1)", "top_p"},
      {R"(, "top_k": 1.5)", "top_k"},
      {R"(, "top_k": -2)", "top_k"},
      {R"(, "top_k": 18446744073709551615)", "top_k"},
      {R"(, "min_p": 2)", "min_p"},
      {R"(, "seed": "x")", "seed"},
      {R"(, "seed": 18446744073709551615)", "seed"},
      {R"(, "n": 0)", "n"},
      {R"(, "n": 129)", "n"},
      {R"(, "n": [])", "n"},
      {R"(, "max_tokens": 0)", "max_tokens"},
      {R"(, "max_tokens": -1)", "max_tokens"},
      {R"(, "max_completion_tokens": 1e3)", "max_completion_tokens"},
      {R"(, "stop": 3)", "stop"},
      {R"(, "stop": [""])", "stop"},
      {R"(, "stop": ["a", 3])", "stop"},
      {R"(, "stop": ["","","","","","","","","","","","","","","","",""])", "stop"},
      {R"(, "stop_token_ids": 3)", "stop_token_ids"},
      {R"(, "stop_token_ids": [100])", "stop_token_ids[0]"},
      {R"(, "ignore_eos": 1)", "ignore_eos"},
      {R"(, "stream": "yes")", "stream"},
      {R"(, "stream_options": {"include_usage": true})", "stream_options"},
      {R"(, "stream": true, "stream_options": 3)", "stream_options"},
      {R"(, "stream": true, "stream_options": {"include_usage": 1})",
       "stream_options.include_usage"},
      {R"(, "logprobs": 3)", "logprobs"},
      {R"(, "top_logprobs": 2)", "top_logprobs"},
      {R"(, "logprobs": true, "top_logprobs": 21)", "top_logprobs"},
      {R"(, "logit_bias": [])", "logit_bias"},
      {R"(, "logit_bias": {"x": 1})", "logit_bias"},
      {R"(, "logit_bias": {"100": 1})", "logit_bias"},
      {R"(, "logit_bias": {"1": 101})", "logit_bias.1"},
      {R"(, "presence_penalty": 3)", "presence_penalty"},
      {R"(, "frequency_penalty": -3)", "frequency_penalty"},
      {R"(, "repetition_penalty": 0)", "repetition_penalty"},
      {R"(, "tools": [{}])", "tools"},
      {R"(, "functions": {})", "functions"},
      {R"(, "tool_choice": "required")", "tool_choice"},
      {R"(, "response_format": "json")", "response_format"},
      {R"(, "response_format": {})", "response_format.type"},
      {R"(, "response_format": {"type": "xml"})", "response_format.type"},
      {R"(, "response_format": {"type": "regex"})", "response_format.pattern"},
      {R"(, "response_format": {"type": "json_schema"})", "response_format.json_schema"},
      {R"(, "response_format": {"type": "json_schema", "json_schema": {"name": "a"}})",
       "response_format.json_schema.schema"},
      {R"(, "response_format": {"type": "json_schema", "json_schema": {"schema": 3}})",
       "response_format.json_schema.schema"},
      {R"(, "response_format": {"type": "json_schema", "json_schema": {"name": 1, "schema": {}}})",
       "response_format.json_schema.name"},
      {R"(, "guided_json": {})", "guided_json"},
      {R"(, "echo": true)", "echo"},
      {R"(, "best_of": 2)", "best_of"},
      {R"(, "audio": {})", "audio"}};
  for (const Wrong& wrong : all) {
    const RequestError error = refusal_of([&] { chat(wrong.fields); });
    EXPECT_EQ(error.status(), 400) << wrong.fields << ": " << error.what();
    EXPECT_EQ(error.param(), wrong.param) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("'" + wrong.param + "'"));
  }
}

TEST(WrongMessage, is_refused_by_its_place) {
  const auto param = [](const std::string& messages) {
    return refusal_of([&] {
             read_chat_request(RequestBody(R"({"messages": )" + messages + "}"), kRules, 0);
           })
        .param();
  };
  EXPECT_EQ(param("null"), "messages");
  EXPECT_EQ(param("[]"), "messages");
  EXPECT_EQ(param("{}"), "messages");
  EXPECT_EQ(param("[3]"), "messages[0]");
  EXPECT_EQ(param(R"([{"content": "x"}])"), "messages[0].role");
  EXPECT_EQ(param(R"([{"role": "tool", "content": "x"}])"), "messages[0].role");
  EXPECT_EQ(param(R"([{"role": 3, "content": "x"}])"), "messages[0].role");
  EXPECT_EQ(param(R"([{"role": "user"}])"), "messages[0].content");
  EXPECT_EQ(param(R"([{"role": "user", "content": 3}])"), "messages[0].content");
  EXPECT_EQ(param(R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
            "messages[0].content[0].type");
  EXPECT_EQ(param(R"([{"role": "user", "content": [{"type": "text"}]}])"),
            "messages[0].content[0].text");
  EXPECT_EQ(param(R"([{"role": "assistant", "tool_calls": [1]}])"), "messages[0].tool_calls");
}

TEST(WrongPrompt, is_refused_by_its_place) {
  const auto param = [](const std::string& prompt) {
    return refusal_of(
               [&] { read_text_request(RequestBody(R"({"prompt": )" + prompt + "}"), kRules, 0); })
        .param();
  };
  EXPECT_EQ(param("null"), "prompt");
  EXPECT_EQ(param("3"), "prompt");
  EXPECT_EQ(param(R"("")"), "prompt");
  EXPECT_EQ(param("[]"), "prompt");
  EXPECT_EQ(param("[1, -1]"), "prompt[1]");
  EXPECT_EQ(param("[1, 100]"), "prompt[1]");
  EXPECT_EQ(param(R"(["x", ""])"), "prompt[1]");
  EXPECT_EQ(param(R"(["x", {}])"), "prompt[1]");
  EXPECT_EQ(param(R"([[1], [2, "x"]])"), "prompt[1][1]");
}

TEST(Body, must_be_a_json_object_of_bounded_depth) {
  const auto refused = [](const std::string& body) {
    return refusal_of([&] { read_text_request(RequestBody(body), kRules, 0); });
  };
  EXPECT_THAT(refused("").what(), HasSubstr("not JSON"));
  EXPECT_STREQ(refused("hello").what(),
               "the body: byte 1: not JSON: 'syntax error while parsing value - invalid literal; "
               "last read: 'h''");
  EXPECT_THAT(refused("[]").what(), HasSubstr("a JSON object is expected"));
  EXPECT_THAT(refused(R"({"prompt": "x", "prompt": "y"})").what(), HasSubstr("twice"));
  EXPECT_THAT(refused(R"({"prompt": )" + std::string(1000, '[')).what(), HasSubstr("nested"));
  EXPECT_THAT(refused("{\"prompt\": \"\xff\"}").what(), HasSubstr("not JSON"));
}

TEST(Body, names_a_model_or_none) {
  EXPECT_EQ(RequestBody(R"({"model": "gpt"})").model(), "gpt");
  EXPECT_EQ(RequestBody(R"({"model": null})").model(), "");
  EXPECT_EQ(RequestBody("{}").model(), "");
  EXPECT_EQ(refusal_of([] { RequestBody(R"({"model": 3})").model(); }).param(), "model");
}

TEST(Body, an_unknown_field_is_refused_only_if_the_server_is_strict) {
  RequestRules strict = kRules;
  strict.refuses_unknown = true;
  EXPECT_EQ(chat(R"(, "wibble": 1)").choices(), 1u);
  EXPECT_EQ(refusal_of([&] { chat(R"(, "wibble": 1)", strict); }).param(), "wibble");
  EXPECT_EQ(chat(R"(, "user": "me", "n": 2)", strict).choices(), 2u);
}

TEST(Tokens, are_read_for_tokenize_and_detokenize) {
  EXPECT_EQ(read_tokenize_request(RequestBody(R"({"prompt": "x"})"), kRules).text, "x");
  EXPECT_EQ(
      read_tokenize_request(
          RequestBody(
              R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"b": 1, "a": 2}]})"),
          kRules)
          .tools,
      R"([{"b":1,"a":2}])");
  EXPECT_EQ(read_detokenize_request(RequestBody(R"({"tokens": [1, 2]})"), kRules), (Tokens{1, 2}));
  EXPECT_EQ(refusal_of([] { read_tokenize_request(RequestBody("{}"), kRules); }).param(), "prompt");
  EXPECT_EQ(refusal_of([] { read_detokenize_request(RequestBody("{}"), kRules); }).param(),
            "tokens");
  EXPECT_EQ(refusal_of([] {
              read_detokenize_request(RequestBody(R"({"tokens": ["x"]})"), kRules);
            }).param(),
            "tokens[0]");
}

}  // namespace
}  // namespace attacca::server
