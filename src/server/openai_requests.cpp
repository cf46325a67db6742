// openai_requests.cpp: each field of a completion request, with its range and its default.
#include "server/openai_requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/in_quotes.hpp"
#include "server/fields.hpp"
#include "server/openai_tools.hpp"
#include "server/request_error.hpp"

namespace attacca::server {

namespace {

using nlohmann::json;

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostChoices = 128;
constexpr std::size_t kMostStops = 16;
constexpr std::size_t kMostPrompts = 256;
constexpr std::size_t kMostStopTokens = 100;  // the engine takes 128, with the model's own
constexpr std::size_t kMostBiases = 1024;
constexpr std::int64_t kMostLogprobs = 20;
constexpr const char* kSchemaField = "response_format.json_schema.schema";
constexpr std::size_t kDefaultTextTokens = 16;  // as OpenAI has it

/// Refuses a field that has another name here.
void refuse_if_given(Fields& fields, const char* key, const char* instead) {
  if (fields.find(key))
    throw RequestError(400, fmt::format("'{}' is not supported; use {}", key, instead), key,
                       "unsupported_parameter");
}

/// Fields that would change the reply. `format`: the field for its format.
void check_unsupported(Fields& fields, const char* format) {
  if (const json* value = fields.find("functions"); value && !(value->is_array() && value->empty()))
    fields.refuse_unsupported("functions");
  for (const char* key : {"audio", "suffix"})
    if (fields.find(key)) fields.refuse_unsupported(key);
  for (const char* key :
       {"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"})
    refuse_if_given(fields, key, format);
  if (const json* value = fields.find("function_call");
      value && *value != "none" && *value != "auto")
    fields.refuse_unsupported("function_call");
  if (fields.truth("echo").value_or(false)) fields.refuse_unsupported("echo");
  // They change nothing here, so they may be there in strict requests too.
  for (const char* key : {"user", "store", "metadata", "service_tier", "parallel_tool_calls",
                          "safety_identifier", "prompt_cache_key", "reasoning_effort"})
    fields.find(key);
}

/// What `response_format` asks for; `field` is where that is.
llm::Grammar grammar_of(Fields& fields, const RequestBody& body, std::string& field) {
  const json* value = fields.find("response_format");
  if (!value) return {};
  Fields format(*value, "response_format");
  const std::string type = format.text("type").value_or("");
  field = "response_format";
  if (type == "text") return {};
  if (type == "json_object") return {.kind = llm::GrammarKind::json_object};
  if (type == "regex") {
    field = format.place("pattern");
    const auto pattern = format.text("pattern");
    if (!pattern) format.refuse("pattern", "a regular expression");
    return {.kind = llm::GrammarKind::regex, .text = *pattern};
  }
  if (type != "json_schema") format.refuse("type", "text, json_object, json_schema or regex");
  field = kSchemaField;
  const json* described = format.find("json_schema");
  if (!described) format.refuse("json_schema", "an object with a schema");
  Fields description(*described, format.place("json_schema"));
  description.text("name");
  description.truth("strict");  // the schema is always kept to
  const json* schema = description.find("schema");
  if (!schema || !schema->is_object()) description.refuse("schema", "a JSON schema");
  return {.kind = llm::GrammarKind::json_schema,
          .text = body.ordered("response_format")["json_schema"]["schema"].dump()};
}

std::vector<std::string> stops_of(Fields& fields) {
  const json* value = fields.find("stop");
  if (!value) return {};
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kMostStops)
    fields.refuse("stop", fmt::format("a string or at most {} strings", kMostStops));
  std::vector<std::string> stops;
  for (const json& stop : list) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().empty())
      fields.refuse("stop", "a string that is not empty or a list of such strings");
    stops.push_back(stop.get<std::string>());
  }
  return stops;
}

std::int32_t token_of(const json& value, const std::string& place, const RequestRules& rules) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= rules.vocabulary)
    refuse_value(place, value, fmt::format("a token from 0 to {}", rules.vocabulary - 1));
  return value.get<std::int32_t>();
}

std::vector<std::int32_t> tokens_of(const json& list, const std::string& place,
                                    const RequestRules& rules) {
  std::vector<std::int32_t> tokens;
  for (std::size_t at = 0; at < list.size(); ++at)
    tokens.push_back(token_of(list[at], fmt::format("{}[{}]", place, at), rules));
  return tokens;
}

std::vector<std::pair<std::int32_t, float>> biases_of(Fields& fields, const RequestRules& rules) {
  const json* value = fields.find("logit_bias");
  if (!value) return {};
  Fields biases(*value, "logit_bias");
  if (value->size() > kMostBiases)
    throw RequestError(400,
                       fmt::format("'logit_bias' has {} tokens; at most {} are expected",
                                   value->size(), kMostBiases),
                       "logit_bias");
  std::vector<std::pair<std::int32_t, float>> result;
  for (const auto& [key, bias] : value->items()) {
    std::int32_t token = 0;
    const char* const end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, token);
    if (error != std::errc() || stop != end || token < 0 ||
        static_cast<std::size_t>(token) >= rules.vocabulary)
      throw RequestError(400,
                         fmt::format("'logit_bias' names {}; a token from 0 to {} is expected",
                                     in_quotes(key), rules.vocabulary - 1),
                         "logit_bias");
    result.emplace_back(token, static_cast<float>(*biases.number(key, -100, 100)));
  }
  return result;
}

llm::Sampling sampling_of(Fields& fields, const RequestRules& rules, std::uint64_t seed) {
  llm::Sampling result = rules.sampling;
  const auto take = [&](const char* key, float& place, double least, double most) {
    if (const auto value = fields.number(key, least, most)) place = static_cast<float>(*value);
  };
  take("temperature", result.temperature, 0, 100);
  take("top_p", result.top_p, 1e-6, 1);
  take("min_p", result.min_p, 0, 1);
  take("presence_penalty", result.presence_penalty, -2, 2);
  take("frequency_penalty", result.frequency_penalty, -2, 2);
  take("repetition_penalty", result.repetition_penalty, 0.01, 100);
  // -1 is how vLLM spells all tokens.
  if (const auto top_k = fields.whole("top_k", -1, kMostTokens))
    result.top_k = static_cast<int>(std::max<std::int64_t>(*top_k, 0));
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  result.seed = static_cast<std::uint64_t>(
      fields.whole("seed", -kAny - 1, kAny).value_or(static_cast<std::int64_t>(seed)));
  result.bias = biases_of(fields, rules);
  return result;
}

std::string content_of(Fields& message) {
  const json* content = message.find("content");
  if (!content) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) message.refuse("content", "a string or a list of parts");
  std::string text;
  for (std::size_t at = 0; at < content->size(); ++at) {
    Fields part((*content)[at], fmt::format("{}[{}]", message.place("content"), at));
    const std::string type = part.text("type").value_or("");  // those of /v1/responses, too
    if (type != "text" && type != "input_text" && type != "output_text")
      part.refuse("type", "the type text, input_text or output_text");
    const auto piece = part.text("text");
    if (!piece) part.refuse("text", "a string");
    text += *piece;
  }
  return text;
}

std::vector<llm::Message> messages_of(Fields& fields, const RequestRules& rules) {
  const json* list = fields.find("messages");
  if (!list || !list->is_array() || list->empty())
    fields.refuse("messages", "a list of at least one message");
  const bool knows_tools = rules.tool_format != llm::ToolFormat::none;
  std::vector<llm::Message> messages;
  for (std::size_t at = 0; at < list->size(); ++at) {
    Fields message((*list)[at], fmt::format("messages[{}]", at));
    std::string role = message.text("role").value_or("");
    if (role == "developer") role = "system";  // OpenAI's newer name
    const bool is_tool = role == "tool" && knows_tools;
    if (role != "system" && role != "user" && role != "assistant" && !is_tool)
      message.refuse("role", knows_tools ? "system, developer, user, assistant or tool"
                                         : "system, developer, user or assistant");
    if (role != "assistant" && !message.find("content")) message.refuse("content", "a string");
    if (message.find("tool_calls") && !(knows_tools && role == "assistant"))
      message.refuse_unsupported("tool_calls");
    messages.push_back({.role = std::move(role),
                        .content = content_of(message),
                        .tool_calls = tool_calls_of(message),
                        .tool_call_id = message.text("tool_call_id").value_or("")});
  }
  return messages;
}

/// The messages of a list of input items.
std::vector<llm::Message> items_of(const json& list) {
  std::vector<llm::Message> messages;
  for (std::size_t at = 0; at < list.size(); ++at) {
    Fields item(list[at], fmt::format("input[{}]", at));
    if (item.text("type").value_or("message") != "message") item.refuse("type", "the type message");
    std::string role = item.text("role").value_or("");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant")
      item.refuse("role", "system, developer, user or assistant");
    if (!item.find("content")) item.refuse("content", "a string or a list of parts");
    messages.push_back({.role = std::move(role), .content = content_of(item)});
  }
  return messages;
}

/// What `text.format` asks for; `field` is where that is.
llm::Grammar response_grammar_of(Fields& fields, const RequestBody& body, std::string& field) {
  const json* text = fields.find("text");
  if (!text) return {};
  Fields settings(*text, "text");
  settings.find("verbosity");
  const json* value = settings.find("format");
  if (!value) return {};
  Fields format(*value, "text.format");
  const std::string type = format.text("type").value_or("");
  field = "text.format";
  if (type == "text") return {};
  if (type == "json_object") return {.kind = llm::GrammarKind::json_object};
  if (type != "json_schema") format.refuse("type", "text, json_object or json_schema");
  field = format.place("schema");
  const json* schema = format.find("schema");
  if (!schema || !schema->is_object()) format.refuse("schema", "a JSON schema");
  return {.kind = llm::GrammarKind::json_schema,
          .text = body.ordered("text")["format"]["schema"].dump()};
}

/// What all requests of one body have in common.
llm::Request settings_of(Fields& fields, const RequestRules& rules, std::uint64_t seed) {
  llm::Request request;
  request.sampling = sampling_of(fields, rules, seed);
  request.stop = stops_of(fields);
  if (const json* tokens = fields.find("stop_token_ids")) {
    if (!tokens->is_array() || tokens->size() > kMostStopTokens)
      fields.refuse("stop_token_ids", fmt::format("a list of at most {} tokens", kMostStopTokens));
    request.stop_tokens = tokens_of(*tokens, "stop_token_ids", rules);
  }
  request.ignores_end = fields.truth("ignore_eos").value_or(false);
  return request;
}

void read_stream(Fields& fields, GenerationRequest& result) {
  result.streams = fields.truth("stream").value_or(false);
  if (const json* value = fields.find("stream_options")) {
    if (!result.streams) fields.refuse("stream_options", "stream: true together with it");
    Fields options(*value, "stream_options");
    result.includes_usage = options.truth("include_usage").value_or(false);
  }
}

std::size_t choices_of(Fields& fields) {
  const std::int64_t choices = fields.whole("n", 1, kMostChoices).value_or(1);
  if (fields.whole("best_of", 1, kMostChoices).value_or(choices) != choices)
    fields.refuse_unsupported("best_of");
  return static_cast<std::size_t>(choices);
}

/// `key`: the field that has them.
std::vector<llm::Request> prompts_of(Fields& fields, const std::string& key,
                                     const llm::Request& settings, const RequestRules& rules) {
  const std::string expected =
      fmt::format("a text or a list of tokens, neither empty, or a list of at most {} such prompts",
                  kMostPrompts);
  std::vector<llm::Request> prompts;
  const auto add = [&](const json& value, const std::string& place) {
    prompts.push_back(settings);
    if (value.is_string())
      prompts.back().prompt = value.get<std::string>();
    else if (value.is_array())
      prompts.back().tokens = tokens_of(value, place, rules);
    if (prompts.back().prompt.empty() && prompts.back().tokens.empty())
      refuse_value(place, value, expected);
  };
  const json* value = fields.find(key);
  if (!value) fields.refuse(key, expected);
  const bool is_list = value->is_array() && !value->empty() && !value->front().is_number();
  if (!is_list) {
    add(*value, key);
  } else {
    if (value->size() > kMostPrompts) fields.refuse(key, expected);
    for (std::size_t at = 0; at < value->size(); ++at)
      add((*value)[at], fmt::format("{}[{}]", key, at));
  }
  return prompts;
}

void check_unknown(const Fields& fields, const RequestRules& rules) {
  if (rules.refuses_unknown) fields.require_all_known();
}

}  // namespace

llm::Request GenerationRequest::choice(std::size_t at) const {
  llm::Request request = prompts[at / choices_per_prompt];
  request.sampling.seed += at % choices_per_prompt;
  return request;
}

llm::Sampling default_sampling(const llm::Sampling& advised) {
  llm::Sampling result = advised;
  if (advised.temperature == 0) result.temperature = 1;
  return result;
}

GenerationRequest read_chat_request(const RequestBody& body, const RequestRules& rules,
                                    std::uint64_t seed) {
  Fields fields = body.fields();
  check_unsupported(fields, "response_format");
  GenerationRequest result{.is_chat = true, .prompt_field = "messages"};
  llm::Request request = settings_of(fields, rules, seed);
  request.messages = messages_of(fields, rules);
  request.grammar = grammar_of(fields, body, result.grammar_field);
  read_tools(fields, body, rules, result, request);
  const auto tokens = fields.whole("max_tokens", 1, kMostTokens);
  const auto newer_tokens = fields.whole("max_completion_tokens", 1, kMostTokens);
  request.max_tokens = static_cast<std::size_t>(
      newer_tokens.value_or(tokens.value_or(static_cast<std::int64_t>(rules.longest_sequence))));
  const auto top = fields.whole("top_logprobs", 0, kMostLogprobs);
  if (fields.truth("logprobs").value_or(false))
    request.logprobs = static_cast<unsigned>(top.value_or(0));
  else if (top.value_or(0) > 0)
    fields.refuse("top_logprobs", "logprobs: true together with it");
  read_stream(fields, result);
  result.choices_per_prompt = choices_of(fields);
  result.prompts.push_back(std::move(request));
  check_unknown(fields, rules);
  return result;
}

GenerationRequest read_text_request(const RequestBody& body, const RequestRules& rules,
                                    std::uint64_t seed) {
  Fields fields = body.fields();
  check_unsupported(fields, "response_format");
  GenerationRequest result{.prompt_field = "prompt"};
  if (has_tools(fields)) fields.refuse_unsupported("tools");
  fields.find("tool_choice");
  llm::Request settings = settings_of(fields, rules, seed);
  settings.grammar = grammar_of(fields, body, result.grammar_field);
  settings.max_tokens = static_cast<std::size_t>(
      fields.whole("max_tokens", 1, kMostTokens).value_or(kDefaultTextTokens));
  if (const auto logprobs = fields.whole("logprobs", 0, kMostLogprobs))
    settings.logprobs = static_cast<unsigned>(*logprobs);
  read_stream(fields, result);
  result.choices_per_prompt = choices_of(fields);
  result.prompts = prompts_of(fields, result.prompt_field, settings, rules);
  check_unknown(fields, rules);
  return result;
}

GenerationRequest read_response_request(const RequestBody& body, const RequestRules& rules,
                                        std::uint64_t seed) {
  Fields fields = body.fields();
  for (const char* key : {"previous_response_id", "conversation", "prompt", "top_logprobs"})
    if (fields.find(key)) fields.refuse_unsupported(key);
  for (const char* key : {"tools", "include"})
    if (const json* value = fields.find(key); value && !(value->is_array() && value->empty()))
      fields.refuse_unsupported(key);
  if (fields.truth("background").value_or(false)) fields.refuse_unsupported("background");
  check_unsupported(fields, "text.format");
  refuse_if_given(fields, "response_format", "text.format");
  for (const char* key : {"max_tokens", "max_completion_tokens"})
    refuse_if_given(fields, key, "max_output_tokens");
  if (const json* choice = fields.find("tool_choice");
      choice && *choice != "none" && *choice != "auto")
    fields.refuse_unsupported("tool_choice");
  if (const json* value = fields.find("logprobs"); value && *value != false)
    fields.refuse_unsupported("logprobs");
  if (choices_of(fields) > 1) fields.refuse_unsupported("n");
  for (const char* key : {"reasoning", "truncation", "max_tool_calls"})  // they change nothing here
    fields.find(key);
  GenerationRequest result{.is_response = true, .prompt_field = "input"};
  llm::Request request = settings_of(fields, rules, seed);
  result.instructions = fields.text("instructions");
  if (result.instructions)
    request.messages.push_back({.role = "system", .content = *result.instructions});
  if (const json* metadata = fields.find("metadata")) {
    if (!metadata->is_object()) fields.refuse("metadata", "an object");
    result.metadata = metadata->dump();
  }
  const json* input = fields.find("input");
  if (input && input->is_string()) {
    request.messages.push_back({.role = "user", .content = input->get<std::string>()});
  } else {
    if (!input || !input->is_array() || input->empty())
      fields.refuse("input", "a text or a list of at least one message");
    for (llm::Message& message : items_of(*input)) request.messages.push_back(std::move(message));
  }
  request.grammar = response_grammar_of(fields, body, result.grammar_field);
  request.max_tokens =
      static_cast<std::size_t>(fields.whole("max_output_tokens", 1, kMostTokens)
                                   .value_or(static_cast<std::int64_t>(rules.longest_sequence)));
  result.streams = fields.truth("stream").value_or(false);
  fields.find("stream_options");
  result.prompts.push_back(std::move(request));
  check_unknown(fields, rules);
  return result;
}

GenerationRequest read_embedding_request(const RequestBody& body, const RequestRules& rules,
                                         std::uint64_t) {
  Fields fields = body.fields();
  GenerationRequest result{.is_embedding = true, .prompt_field = "input"};
  llm::Request settings;
  const std::string pooling = fields.text("pooling").value_or("last");
  if (pooling != "last" && pooling != "mean") fields.refuse("pooling", "last or mean");
  settings.embed = pooling == "last" ? llm::Pooling::last : llm::Pooling::mean;
  const std::string encoding = fields.text("encoding_format").value_or("float");
  if (encoding != "float" && encoding != "base64")
    fields.refuse("encoding_format", "float or base64");
  result.is_base64 = encoding == "base64";
  if (fields.find("dimensions")) fields.refuse_unsupported("dimensions");
  fields.find("user");
  result.prompts = prompts_of(fields, result.prompt_field, settings, rules);
  check_unknown(fields, rules);
  return result;
}

TokenizeRequest read_tokenize_request(const RequestBody& body, const RequestRules& rules) {
  Fields fields = body.fields();
  TokenizeRequest result;
  if (fields.find("messages")) {
    result.messages = messages_of(fields, rules);
    if (has_tools(fields)) result.tools = body.ordered("tools").dump();
  } else {
    const auto prompt = fields.text("prompt");
    if (!prompt) fields.refuse("prompt", "a string or a field messages");
    result.text = *prompt;
  }
  check_unknown(fields, rules);
  return result;
}

std::vector<std::int32_t> read_detokenize_request(const RequestBody& body,
                                                  const RequestRules& rules) {
  Fields fields = body.fields();
  const json* tokens = fields.find("tokens");
  if (!tokens || !tokens->is_array()) fields.refuse("tokens", "a list of tokens");
  check_unknown(fields, rules);
  return tokens_of(*tokens, "tokens", rules);
}

}  // namespace attacca::server
