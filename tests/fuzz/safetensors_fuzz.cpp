// safetensors_fuzz.cpp: feeds any bytes to the readers of safetensors files and of config.json.
#include <attacca/error.hpp>

#include "formats/safetensors.hpp"
#include "fuzz/read_all.hpp"
#include "model/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attacca;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    test::read_all(formats::parse_safetensors(bytes, "fuzz"));
  } catch (const Error&) {
  }
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    model::rotary_frequencies(model::config_from_json(text, text, "fuzz"));
  } catch (const Error&) {
  }
  return 0;
}
