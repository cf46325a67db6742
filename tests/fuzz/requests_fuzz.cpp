// requests_fuzz.cpp: feeds any body to the readers of requests. The result is a RequestError, or a
// request whose every value is in the range that docs/server.md promises. The reader of tool calls
// gets it too.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/openai_requests.hpp"
#include "server/request_error.hpp"
#include "server/tool_calls.hpp"

namespace {

using namespace attacca::server;

const RequestRules kRules = {
    .vocabulary = 1000, .longest_sequence = 64, .sampling = default_sampling({})};
const RequestRules kStrict = {.vocabulary = 1000,
                              .longest_sequence = 64,
                              .sampling = default_sampling({}),
                              .refuses_unknown = true};

const RequestRules kWithTools = {.vocabulary = 1000,
                                 .longest_sequence = 64,
                                 .sampling = default_sampling({}),
                                 .tool_format = attacca::llm::ToolFormat::qwen};

void require(bool claim) {
  if (!claim) std::abort();
}

void check(const GenerationRequest& read) {
  require(!read.prompts.empty() && read.choices_per_prompt >= 1 && read.choices_per_prompt <= 128);
  for (const attacca::llm::Request& request : read.prompts) {
    require(!request.prompt.empty() + !request.messages.empty() + !request.tokens.empty() == 1);
    require(request.max_tokens >= 1);
    require(request.sampling.temperature >= 0 && request.sampling.top_k >= 0);
    require(request.sampling.top_p > 0 && request.sampling.top_p <= 1);
    require(!request.logprobs || *request.logprobs <= 20);
    for (const std::int32_t token : request.tokens) require(token >= 0 && token < 1000);
    for (const std::int32_t token : request.stop_tokens) require(token >= 0 && token < 1000);
    for (const auto& [token, bias] : request.sampling.bias)
      require(token >= 0 && token < 1000 && bias >= -100 && bias <= 100);
  }
  require(read.choice(read.choices() - 1).max_tokens >= 1);
}

/// Letter by letter the reply has the same calls.
void check_letters(attacca::llm::ToolFormat format, std::string_view text, const ToolReply& whole) {
  ToolCallReader reader(format);
  ToolReply read;
  const auto take = [&](const ToolPiece& piece) {
    read.content += piece.content;
    for (const CallDelta& delta : piece.calls) {
      read.calls.resize(delta.call + 1);
      read.calls[delta.call].name += delta.name;
      read.calls[delta.call].arguments += delta.arguments;
    }
  };
  for (std::size_t at = 0; at < text.size(); ++at) take(reader.push(text.substr(at, 1)));
  take(reader.finish());
  require(read.content == whole.content && read.calls.size() == whole.calls.size());
  for (std::size_t at = 0; at < read.calls.size(); ++at)
    require(read.calls[at].name == whole.calls[at].name &&
            read.calls[at].arguments == whole.calls[at].arguments);
}

template <class Work>
void allow_refusal(const Work& work) {
  try {
    work();
  } catch (const RequestError& error) {
    require(error.status() == 400 || error.status() == 404);
    require(!error_json(error).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  allow_refusal([&] { require(RequestBody(text).model().size() <= size); });
  for (const RequestRules* rules : {&kRules, &kStrict, &kWithTools}) {
    allow_refusal([&] { check(read_chat_request(RequestBody(text), *rules, 1)); });
    allow_refusal([&] { check(read_text_request(RequestBody(text), *rules, 1)); });
    allow_refusal([&] { check(read_response_request(RequestBody(text), *rules, 1)); });
    allow_refusal([&] { check(read_embedding_request(RequestBody(text), *rules, 1)); });
    allow_refusal([&] { read_tokenize_request(RequestBody(text), *rules); });
    allow_refusal([&] { read_detokenize_request(RequestBody(text), *rules); });
  }
  for (const auto format : {attacca::llm::ToolFormat::qwen, attacca::llm::ToolFormat::llama3}) {
    const ToolReply whole = read_calls(format, text);  // as if a model had written the body
    require(!whole.calls.empty() || whole.content == text);
    check_letters(format, text, whole);
  }
  return 0;
}
