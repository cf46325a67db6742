// openai_requests.hpp: reads the bodies of /v1/chat/completions, /v1/completions, /v1/responses and
// /v1/embeddings into requests of the engine. docs/server.md lists the fields. A field that would
// change the reply and is not supported is refused, never ignored.
#pragma once

#include <attacca/llm.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/fields.hpp"

namespace attacca::server {

/// What the server knows when it reads a request.
struct RequestRules {
  std::size_t vocabulary = 0;
  std::size_t longest_sequence = 0;  // the default of max_tokens in a chat
  llm::Sampling sampling = {};       // where a request has no field
  llm::ToolFormat tool_format = llm::ToolFormat::none;
  bool refuses_unknown = false;            // --strict
  std::size_t most_tokens = 0;             // of a reply; 0: as many as fit
  std::chrono::milliseconds most_time{0};  // from the request to the end of its reply; 0: any
};

/// Where a tool's parameters are in a grammar of calls: a JSON pointer, as "#/anyOf/0".
struct ToolPlace {
  std::string name;
  std::string field;  // "tools[1].function.parameters"
  std::string pointer;
};

/// What to generate and how to send it.
struct GenerationRequest {
  bool is_chat = false;
  bool is_response = false;  // of /v1/responses
  bool is_embedding = false;
  bool is_base64 = false;  // an embedding is sent as that, not as a list of numbers
  bool streams = false;
  bool includes_usage = false;  // in a stream: a last chunk with the usage
  std::vector<llm::Request> prompts = {};
  std::size_t choices_per_prompt = 1;
  std::string prompt_field = {};            // the field that the prompts are from,
  std::string grammar_field = {};           // and the grammar
  std::vector<ToolPlace> tool_places = {};  // those of a grammar that is a call
  llm::ToolFormat tool_format =
      llm::ToolFormat::none;                     // in which replies call tools; none: as text
  std::optional<std::string> instructions = {};  // which a response repeats,
  std::string metadata = "{}";                   // as it does these, in JSON

  /// First all choices of the first prompt, then those of the next. Each of a prompt's choices has
  /// a seed of its own: the request's, that + 1, ...
  std::size_t choices() const { return prompts.size() * choices_per_prompt; }
  llm::Request choice(std::size_t at) const;
};

/// The model's advice, or what OpenAI has where there is none: temperature 1 and top_p 1.
llm::Sampling default_sampling(const llm::Sampling& advised);

/// `seed`: for a request without one. All throw RequestError.
GenerationRequest read_chat_request(const RequestBody& body, const RequestRules& rules,
                                    std::uint64_t seed);
GenerationRequest read_text_request(const RequestBody& body, const RequestRules& rules,
                                    std::uint64_t seed);

GenerationRequest read_response_request(const RequestBody& body, const RequestRules& rules,
                                        std::uint64_t seed);
GenerationRequest read_embedding_request(const RequestBody& body, const RequestRules& rules,
                                         std::uint64_t seed);

/// Messages alone, for /tokenize; empty if `text` is given instead.
struct TokenizeRequest {
  std::string text = {};
  std::vector<llm::Message> messages = {};
  std::string tools = {};
};
TokenizeRequest read_tokenize_request(const RequestBody& body, const RequestRules& rules);
std::vector<std::int32_t> read_detokenize_request(const RequestBody& body,
                                                  const RequestRules& rules);

}  // namespace attacca::server
