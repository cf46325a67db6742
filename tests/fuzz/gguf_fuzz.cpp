// gguf_fuzz.cpp: feeds any bytes to the GGUF reader. If they are a file, reads a configuration and
// a tokenizer from it; then no token of a text is outside the embedding.
#include <attacca/error.hpp>

#include "fuzz/read_all.hpp"
#include "model/config.hpp"
#include "text/tokenizer/open.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attacca;
  try {
    const auto file = formats::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    test::read_all(file);
    std::vector<std::int32_t> ids;
    try {
      const text::Tokenizer tokenizer = text::read_tokenizer(file);
      ids = tokenizer.encode("a b ab\n\xC3\xA9 1<|end|>", {.add_special = true});
      tokenizer.decode(ids);
    } catch (const Error&) {
    }
    const model::ModelConfig config = model::config_from_gguf(file);
    model::rotary_frequencies(config);
    for (const std::int32_t id : ids)
      if (id < 0 || static_cast<std::uint32_t>(id) >= config.vocabulary) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
