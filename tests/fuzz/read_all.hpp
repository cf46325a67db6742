// read_all.hpp: reads all bytes that a reader of files returned views of, so that a sanitizer
// checks every one.
#pragma once

#include <cstdint>

#include "formats/gguf.hpp"

namespace attacca::test {

inline std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (const std::byte byte : bytes) sum = sum * 31 + std::to_integer<std::uint64_t>(byte);
  return sum;
}

inline std::uint64_t read_all(const std::vector<formats::Tensor>& tensors) {
  std::uint64_t sum = 0;
  for (const formats::Tensor& tensor : tensors) {
    sum += sum_of({tensor.data, tensor.bytes}) + tensor.name.size() + tensor.count();
    if (!kernels::is_quantized(tensor.type)) sum += formats::to_floats(tensor).size();
  }
  return sum;
}

inline std::uint64_t read_all(const formats::GgufFile& file) {
  std::uint64_t sum = file.alignment();
  for (const auto& [key, value] : file.metadata()) {
    sum += sum_of(std::as_bytes(std::span(key))) + sum_of(value.bytes) + value.text().size() +
           value.type_text().size();
    if (const auto texts = value.as<std::vector<std::string_view>>())
      for (const std::string_view text : *texts) sum += sum_of(std::as_bytes(std::span(text)));
    if (const auto numbers = value.as<std::vector<std::int64_t>>()) sum += numbers->size();
    if (const auto numbers = value.as<std::vector<float>>()) sum += numbers->size();
    if (const auto truths = value.as<std::vector<bool>>()) sum += truths->size();
    if (file.value(key) != &value) __builtin_trap();
  }
  return sum + read_all(file.tensors());
}

}  // namespace attacca::test
