// gguf_fuzz.cpp: any bytes as a GGUF file, and as the configuration of a model where they are one.
#include <attacca/error.hpp>

#include "fuzz/read_all.hpp"
#include "model/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attacca;
  try {
    const auto file = model::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    test::read_all(file);
    model::rotary_frequencies(model::config_from_gguf(file));
  } catch (const Error&) {
  }
  return 0;
}
