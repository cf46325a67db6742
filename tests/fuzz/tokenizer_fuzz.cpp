// tokenizer_fuzz.cpp: feeds any tokenizer.json and text to the tokenizer. The input is a
// tokenizer.json and, behind a zero byte, a text; without a zero byte it is a text for a correct
// tokenizer. The result is an attacca::Error, or ids and a text.
#include <attacca/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/tokenizer/tokenizer.hpp"
#include "text/utf8.hpp"

namespace {

using attacca::text::Detokenizer;
using attacca::text::TextRange;
using attacca::text::Tokenizer;

constexpr std::string_view kInOrder = R"({
  "added_tokens": [{"id": 9, "content": "<s>", "special": true, "rstrip": true},
                   {"id": 10, "content": "Ab", "normalized": true, "single_word": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]},
  "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|\\w+"}, "behavior": "MergedWithNext"},
  "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 1}]},
  "model": {"type": "BPE", "byte_fallback": true, "unk_token": "?", "fuse_unk": true,
    "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3, " ": 4, "<0xC3>": 5, "<0xA9>": 6, "aba": 7, "bb": 8},
    "merges": ["a b", ["ab", "a"], "b b"]}})";

void require(bool claim) {
  if (!claim) std::abort();
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  const TextRange half{text.size() / 3, text.size() / 2};
  for (const bool is_marked : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_special = true,
                                             .parse_special = !is_marked,
                                             .literal = {&half, is_marked ? 1u : 0u}});
    Detokenizer stream(tokenizer);
    std::string streamed;
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < tokenizer.size());
      const std::string part = stream.push(id);
      require(attacca::text::is_utf8(part));
      streamed += part;
    }
    require(streamed + stream.finish() == tokenizer.decode(ids));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static const Tokenizer in_order = Tokenizer::from_json(kInOrder);
  const std::size_t zero = input.find('\0');
  try {
    if (zero == std::string_view::npos)
      use(in_order, input);
    else
      use(Tokenizer::from_json(input.substr(0, zero)), input.substr(zero + 1));
  } catch (const attacca::Error&) {
  }
  return 0;
}
