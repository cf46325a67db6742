// weights.hpp: random weights of every tensor type, for tests of kernels.
#pragma once

#include <random>
#include <vector>

#include "kernels/quantization.hpp"

namespace attacca::test {

inline constexpr kernels::TensorType kAllTypes[] = {
    kernels::TensorType::f32,  kernels::TensorType::f16,  kernels::TensorType::bf16,
    kernels::TensorType::q8_0, kernels::TensorType::q4_0, kernels::TensorType::q4_1,
    kernels::TensorType::q4_k, kernels::TensorType::q5_k, kernels::TensorType::q6_k};

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Rows of random bytes, but with scales and halves of moderate size: from 2^-8 to 2^-4.
inline std::vector<unsigned char> random_weights(kernels::TensorType type, std::uint32_t rows,
                                                 std::uint32_t columns, unsigned seed) {
  using kernels::TensorType;
  std::mt19937 random(seed);
  std::vector<unsigned char> bytes(rows * kernels::row_bytes(type, columns));
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  const auto moderate = [&](std::size_t at) {
    bytes[at] = static_cast<unsigned char>((bytes[at] & 0x8f) | 0x20);
  };
  const kernels::BlockShape shape = kernels::block_shape(type);
  for (std::size_t at = 0; at < bytes.size(); at += shape.bytes) {
    if (type == TensorType::f32 || type == TensorType::bf16)
      bytes[at + shape.bytes - 1] =
          static_cast<unsigned char>((bytes[at + shape.bytes - 1] & 0x80) | 0x3e);
    else if (type == TensorType::q6_k)
      moderate(at + 209);
    else
      moderate(at + 1);
    if (type == TensorType::q4_1 || type == TensorType::q4_k || type == TensorType::q5_k)
      moderate(at + 3);
  }
  return bytes;
}

}  // namespace attacca::test
