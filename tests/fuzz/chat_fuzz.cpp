// chat_fuzz.cpp: feeds any bytes to the chat template's parser. They are either rendered or refused
// with a BadArgument.
#include <attacca/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "text/chat/chat_options.hpp"
#include "text/chat/chat_template.hpp"

namespace {

using nlohmann::ordered_json;

const ordered_json kMessages = ordered_json::parse(R"([
  {"role": "system", "content": "Be <|im_end|> brief."},
  {"role": "user", "content": [{"type": "text", "text": "Grüße"}]},
  {"role": "assistant", "content": null,
   "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]},
  {"role": "tool", "content": "{\"a\": [1, true]}"}])");
const ordered_json kTools =
    ordered_json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])");

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  attacca::text::ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.tools = kTools;
  try {
    const attacca::text::ChatTemplate source(
        std::string(reinterpret_cast<const char*>(data), size));
    const auto rendered = source.render(kMessages, options);
    std::size_t end = 0;
    for (const auto& range : rendered.literal) {
      check(end <= range.begin && range.begin < range.end);
      end = range.end;
    }
    check(end <= rendered.text.size());
  } catch (const attacca::BadArgument&) {
    return 0;
  }
  return 0;
}
