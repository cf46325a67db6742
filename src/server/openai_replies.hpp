// openai_replies.hpp: what the engine generates, as the JSON and the server-sent events that
// OpenAI's clients read.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/model_status.hpp"
#include "server/request_error.hpp"
#include "server/tool_calls.hpp"

namespace attacca::server {

/// What all parts of one reply have in common.
struct ReplyHead {
  bool is_chat = false;
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  bool has_usage = false;  // in a stream: the last chunk has the usage, all others a null
  llm::ToolFormat tool_format = llm::ToolFormat::none;  // in which whole replies call tools
  llm::Sampling sampling = {};                          // what a response says of its request,
  std::size_t max_tokens = 0;                           // the most that it may have,
  std::optional<std::string> instructions = {};         // and what it came with
  std::string metadata = "{}";                          // in JSON
  std::function<std::string(std::int32_t token)> token_text;
  std::function<std::string(std::int32_t token)> token_bytes;  // also of a part of a character
};

struct Usage {
  std::size_t prompt_tokens = 0;  // of each prompt once, however many choices it has
  std::size_t completion_tokens = 0;
  std::size_t cached_tokens = 0;
};
Usage usage_of(std::span<const llm::Reply> choices, std::size_t choices_per_prompt);

/// `offsets`: of each choice, the character of its text at which each token begins. Texts with
/// log-probabilities need them.
std::string whole_reply(const ReplyHead& head, std::span<const llm::Reply> choices,
                        const Usage& usage, std::span<const std::vector<std::size_t>> offsets = {});

/// The replies' embeddings, scaled to the length 1. `is_base64`: as the bytes of 32-bit floats.
std::string embeddings_reply(const ReplyHead& head, std::span<const llm::Reply> replies,
                             const Usage& usage, bool is_base64);

// Chunks of a stream: "data: {...}\n\n". `choice`: its index.
std::string first_chunk(const ReplyHead& head, std::size_t choice);  // chat: the role; else empty
/// `offset`: the character of the choice's text at which the token begins, for log-probabilities of
/// a text.
std::string text_chunk(const ReplyHead& head, std::size_t choice, const std::string& text,
                       const std::optional<llm::TokenLogprob>& logprob, std::size_t offset);
/// The same for texts without log-probabilities: the frame around the text is written once, because
/// a stream has a chunk for every token.
class TextFrame {
 public:
  TextFrame(const ReplyHead& head, std::size_t choice);
  std::string chunk(const std::string& text) const;

 private:
  std::string before_, after_;
};
std::string call_chunk(const ReplyHead& head, std::size_t choice,
                       std::span<const CallDelta> deltas);
std::string end_chunk(const ReplyHead& head, std::size_t choice, llm::Finish finish,
                      bool has_calls);
std::string usage_chunk(const ReplyHead& head, const Usage& usage);
std::string error_chunk(const RequestError& error);
inline constexpr const char* kLastChunk = "data: [DONE]\n\n";

/// Bytes that are no UTF-8 become U+FFFD: a token may be half a character.
std::string json_text(const nlohmann::ordered_json& value);

inline constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Characters, not bytes.
std::size_t length_of(const std::string& utf8);

// The other endpoints.
std::string model_json(const ModelStatus& model, std::int64_t created);
std::string models_json(std::span<const ModelStatus> models, std::int64_t created);
std::string steps_json(std::span<const ModelStep> steps);
std::string tokens_json(std::span<const std::int32_t> tokens, std::size_t longest);
std::string text_json(const std::string& text);
std::string status_json(const char* status);
std::string version_json();

}  // namespace attacca::server
