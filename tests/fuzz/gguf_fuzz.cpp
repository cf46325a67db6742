// gguf_fuzz.cpp: any bytes as a GGUF file, and as the configuration and tokenizer of a model where
// they are one.
#include <attacca/error.hpp>

#include "fuzz/read_all.hpp"
#include "model/config.hpp"
#include "model/tokenizer/open.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attacca;
  try {
    const auto file = model::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    test::read_all(file);
    try {
      const model::Tokenizer tokenizer = model::read_tokenizer(file);
      tokenizer.decode(tokenizer.encode("a b ab\n\xC3\xA9 1<|end|>", {.add_special = true}));
    } catch (const Error&) {
    }
    model::rotary_frequencies(model::config_from_gguf(file));
  } catch (const Error&) {
  }
  return 0;
}
