// openai_replies.cpp: the shapes of OpenAI's replies. Fields keep the order in which OpenAI's
// reference lists them.
#include "server/openai_replies.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <attacca/version.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace attacca::server {

namespace {

using Json = nlohmann::ordered_json;

std::string event_of(const Json& value) { return "data: " + json_text(value) + "\n\n"; }

const char* finish_reason(llm::Finish finish, bool has_calls) {
  switch (finish) {
    case llm::Finish::stop:
      return has_calls ? "tool_calls" : "stop";
    case llm::Finish::length:
    case llm::Finish::deadline:
      return "length";
    default:
      return "abort";
  }
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

Json chat_logprob(const ReplyHead& head, std::int32_t token, float logprob) {
  const std::string text = head.token_text(token);
  // The text of a part of a character does not tell its bytes.
  const bool is_part = text.find(kReplacement) != std::string::npos;
  return {{"token", text},
          {"logprob", logprob},
          {"bytes", bytes_of(is_part ? head.token_bytes(token) : text)}};
}

Json chat_logprobs(const ReplyHead& head, std::span<const llm::TokenLogprob> tokens) {
  Json content = Json::array();
  for (const llm::TokenLogprob& token : tokens) {
    Json entry = chat_logprob(head, token.token, token.logprob);
    Json top = Json::array();
    for (const auto& [other, logprob] : token.top)
      top.push_back(chat_logprob(head, other, logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json text_logprobs(const ReplyHead& head, std::span<const llm::TokenLogprob> tokens,
                   std::span<const std::size_t> offsets) {
  Json texts = Json::array(), logprobs = Json::array(), tops = Json::array();
  for (const llm::TokenLogprob& token : tokens) {
    texts.push_back(head.token_text(token.token));
    logprobs.push_back(token.logprob);
    Json top = Json::object();
    for (const auto& [other, logprob] : token.top) top[head.token_text(other)] = logprob;
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", offsets}};
}

Json logprobs_of(const ReplyHead& head, std::span<const llm::TokenLogprob> tokens,
                 std::span<const std::size_t> offsets) {
  if (tokens.empty()) return nullptr;
  return head.is_chat ? chat_logprobs(head, tokens) : text_logprobs(head, tokens, offsets);
}

Json call_json(const ReplyHead& head, std::size_t choice, std::size_t number,
               const std::string& name, const std::string& arguments) {
  return {{"id", fmt::format("call-{}-{}-{}", head.id, choice, number)},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", arguments}}}};
}

/// The message of a whole chat reply.
Json message_of(const ReplyHead& head, std::size_t choice, const ToolReply& reply) {
  Json message = {{"role", "assistant"}, {"content", reply.content}, {"refusal", nullptr}};
  if (reply.calls.empty()) return message;
  if (reply.content.empty()) message["content"] = nullptr;
  Json calls = Json::array();
  for (std::size_t at = 0; at < reply.calls.size(); ++at)
    calls.push_back(call_json(head, choice, at, reply.calls[at].name, reply.calls[at].arguments));
  message["tool_calls"] = std::move(calls);
  return message;
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::vector<float> with_length_1(std::vector<float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  const double factor = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (float& value : values) value = static_cast<float>(value * factor);
  return values;
}

std::string base64_of(std::span<const std::byte> bytes) {
  static constexpr char kLetters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    unsigned bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < count ? std::to_integer<unsigned>(bytes[at + i]) : 0);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= count ? kLetters[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

Json envelope(const ReplyHead& head, const char* object, Json choices) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"choices", std::move(choices)}};
}

/// A chunk of a stream with one choice, or with none.
std::string chunk(const ReplyHead& head, Json choices, Json usage = nullptr) {
  Json result = envelope(head, head.is_chat ? "chat.completion.chunk" : "text_completion",
                         std::move(choices));
  if (head.has_usage) result["usage"] = std::move(usage);
  return event_of(result);
}

/// `content` is the delta of a chat, or the text.
Json choice_of(const ReplyHead& head, std::size_t index, Json content, Json logprobs, Json reason) {
  return {{"index", index},
          {head.is_chat ? "delta" : "text", std::move(content)},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", std::move(reason)}};
}

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 429:
      return "rate_limit_error";
    case 500:
    case 503:
      return "server_error";
    default:
      return "invalid_request_error";
  }
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json json_of(const ModelStatus& model, std::int64_t created) {
  constexpr const char* kStates[] = {"unloaded", "loading", "loaded"};
  Json json = {{"id", model.name},
               {"object", "model"},
               {"created", created},
               {"owned_by", "attacca"},
               {"state", kStates[static_cast<std::size_t>(model.state)]},
               {"memory_bytes", model.bytes}};
  if (model.longest_sequence > 0) json["max_model_len"] = model.longest_sequence;
  return json;
}

}  // namespace

Usage usage_of(std::span<const llm::Reply> choices, std::size_t choices_per_prompt) {
  Usage usage;
  for (std::size_t at = 0; at < choices.size(); ++at) {
    usage.completion_tokens += choices[at].tokens.size();
    if (at % choices_per_prompt != 0) continue;
    usage.prompt_tokens += choices[at].prompt_tokens;
    usage.cached_tokens += choices[at].cached_tokens;
  }
  return usage;
}

std::string whole_reply(const ReplyHead& head, std::span<const llm::Reply> choices,
                        const Usage& usage, std::span<const std::vector<std::size_t>> offsets) {
  Json list = Json::array();
  for (std::size_t at = 0; at < choices.size(); ++at) {
    const llm::Reply& reply = choices[at];
    const ToolReply read = read_calls(head.tool_format, reply.text);
    Json choice = {{"index", at}};
    if (head.is_chat)
      choice["message"] = message_of(head, at, read);
    else
      choice["text"] = reply.text;
    choice["logprobs"] = logprobs_of(
        head, reply.logprobs, offsets.empty() ? std::span<const std::size_t>() : offsets[at]);
    choice["finish_reason"] = finish_reason(reply.finish, !read.calls.empty());
    list.push_back(std::move(choice));
  }
  Json result =
      envelope(head, head.is_chat ? "chat.completion" : "text_completion", std::move(list));
  result["usage"] = usage_json(usage);
  return json_text(result);
}

std::string embeddings_reply(const ReplyHead& head, std::span<const llm::Reply> replies,
                             const Usage& usage, bool is_base64) {
  Json data = Json::array();
  for (std::size_t at = 0; at < replies.size(); ++at) {
    const std::vector<float> values = with_length_1(replies[at].embedding);
    Json embedding = values;
    if (is_base64) embedding = base64_of(std::as_bytes(std::span(values)));
    data.push_back({{"object", "embedding"}, {"index", at}, {"embedding", std::move(embedding)}});
  }
  return json_text(
      {{"object", "list"},
       {"data", std::move(data)},
       {"model", head.model},
       {"usage", {{"prompt_tokens", usage.prompt_tokens}, {"total_tokens", usage.prompt_tokens}}}});
}

std::string first_chunk(const ReplyHead& head, std::size_t choice) {
  if (!head.is_chat) return {};
  const Json delta = {{"role", "assistant"}, {"content", ""}};
  return chunk(head, Json::array({choice_of(head, choice, delta, nullptr, nullptr)}));
}

std::string text_chunk(const ReplyHead& head, std::size_t choice, const std::string& text,
                       const std::optional<llm::TokenLogprob>& logprob, std::size_t offset) {
  Json logprobs = nullptr;
  if (logprob) logprobs = logprobs_of(head, {&*logprob, 1}, {&offset, 1});
  Json content = text;
  if (head.is_chat) content = {{"content", text}};
  return chunk(
      head,
      Json::array({choice_of(head, choice, std::move(content), std::move(logprobs), nullptr)}));
}

TextFrame::TextFrame(const ReplyHead& head, std::size_t choice) {
  // The two differ first where the text is: between its quotes.
  const std::string empty = text_chunk(head, choice, "", std::nullopt, 0);
  const std::string letter = text_chunk(head, choice, "a", std::nullopt, 0);
  const auto place = std::mismatch(empty.begin(), empty.end(), letter.begin()).first;
  before_.assign(empty.begin(), place);
  after_.assign(place, empty.end());
}

std::string TextFrame::chunk(const std::string& text) const {
  const auto is_plain = [](char letter) {
    return letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\';
  };
  std::string result;
  result.reserve(before_.size() + text.size() + after_.size());
  result.append(before_);
  if (std::all_of(text.begin(), text.end(), is_plain)) {  // most tokens need no JSON library
    result.append(text);
  } else {
    const std::string quoted = json_text(text);
    result.append(quoted, 1, quoted.size() - 2);
  }
  return result.append(after_);
}

std::string call_chunk(const ReplyHead& head, std::size_t choice,
                       std::span<const CallDelta> deltas) {
  Json list = Json::array();
  for (const CallDelta& delta : deltas) {
    Json call = {{"index", delta.call}};
    if (delta.name.empty())
      call["function"] = {{"arguments", delta.arguments}};
    else
      call.update(call_json(head, choice, delta.call, delta.name, delta.arguments));
    list.push_back(std::move(call));
  }
  const Json delta = {{"tool_calls", std::move(list)}};
  return chunk(head, Json::array({choice_of(head, choice, delta, nullptr, nullptr)}));
}

std::string end_chunk(const ReplyHead& head, std::size_t choice, llm::Finish finish,
                      bool has_calls) {
  Json content = "";
  if (head.is_chat) content = Json::object();
  return chunk(head, Json::array({choice_of(head, choice, std::move(content), nullptr,
                                            finish_reason(finish, has_calls))}));
}

std::string usage_chunk(const ReplyHead& head, const Usage& usage) {
  return chunk(head, Json::array(), usage_json(usage));
}

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::size_t length_of(const std::string& utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::string error_json(const RequestError& error) {
  return json_text({{"error",
                     {{"message", error.what()},
                      {"type", error_type(error.status())},
                      {"param", or_null(error.param())},
                      {"code", or_null(error.code())}}}});
}

HttpReply error_reply(const RequestError& error) {
  HttpReply reply{.status = error.status(), .body = error_json(error), .headers = error.headers()};
  if (error.status() == 429) reply.headers.emplace_back("Retry-After", "1");
  if (error.status() == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

std::string error_chunk(const RequestError& error) { return "data: " + error_json(error) + "\n\n"; }

std::string model_json(const ModelStatus& model, std::int64_t created) {
  return json_text(json_of(model, created));
}

std::string models_json(std::span<const ModelStatus> models, std::int64_t created) {
  Json data = Json::array();
  for (const ModelStatus& model : models) data.push_back(json_of(model, created));
  return json_text({{"object", "list"}, {"data", data}});
}

std::string steps_json(std::span<const ModelStep> steps) {
  std::string list;
  for (const ModelStep& step : steps)
    list += fmt::format(R"({}{{"model":{},{})", list.empty() ? "" : ",", json_text(step.model),
                        llm::to_json(step.record).substr(1));
  return R"({"steps":[)" + list + "]}";
}

std::string tokens_json(std::span<const std::int32_t> tokens, std::size_t longest) {
  return json_text({{"count", tokens.size()},
                    {"max_model_len", longest},
                    {"tokens", std::vector<std::int32_t>(tokens.begin(), tokens.end())}});
}

std::string text_json(const std::string& text) { return json_text({{"prompt", text}}); }
std::string status_json(const char* status) { return json_text({{"status", status}}); }
std::string version_json() { return json_text({{"version", version()}}); }

}  // namespace attacca::server
