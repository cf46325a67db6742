// streamed_inputs.hpp: random weights of every type and random rows, for tests of streamed linear
// layers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/linear/streamed_linear.hpp"
#include "kernels/product_world.hpp"
#include "kernels/weights.hpp"

namespace attacca::test::streamed_linear_test {

using kernels::TensorType;

/// A simple generator, because tests need millions of numbers: from -1.7 to 1.7 times `scale`,
/// which is their root mean square.
class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed) {}
  std::uint32_t bits() { return state_ = state_ * 1664525u + 1013904223u; }
  float number(float scale = 1) {
    return 1.7320508f * scale * (static_cast<float>(static_cast<std::int32_t>(bits())) * 0x1p-31f);
  }

 private:
  std::uint32_t state_;
};

inline Bits random_bfloats(std::size_t count, std::uint32_t seed, float scale = 1) {
  Random random(seed);
  Bits bits(count);
  for (std::uint16_t& bit : bits) bit = kernels::bfloat_of_float(random.number(scale));
  return bits;
}
inline double number(std::uint16_t bits) { return kernels::float_of_bfloat(bits); }

using Sizes = ProductSizes;

/// Rows of weights with an average size of `scale`. Quants are random, and scales have random
/// signs.
inline std::vector<unsigned char> random_bytes(TensorType type, const Sizes& s, std::uint32_t seed,
                                               float scale) {
  Random random(seed);
  std::vector<unsigned char> bytes(s.rows * kernels::row_bytes(type, s.columns));
  if (type == TensorType::bf16) {
    const Bits bits = random_bfloats(bytes.size() / 2, seed, scale);
    std::memcpy(bytes.data(), bits.data(), bytes.size());
    return bytes;
  }
  if (type == TensorType::f16) {
    for (std::size_t at = 0; at < bytes.size(); at += 2) {
      const std::uint16_t half = kernels::half_of_float(random.number(scale));
      std::memcpy(bytes.data() + at, &half, 2);
    }
    return bytes;
  }
  if (type == TensorType::e4m3) {
    for (unsigned char& byte : bytes) byte = kernels::e4m3_of_float(random.number(60));
    return bytes;
  }
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.bits() >> 24);
  const float quants = type == TensorType::q8_0 ? 74.0f : 4.6f;
  const auto put_half = [&](std::size_t at, float value) {  // rounded towards 0
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t half = (bits >> 16 & 0x8000u) | ((bits >> 13 & 0x3ffffu) - (112u << 10));
    bytes[at] = static_cast<unsigned char>(half & 0xff);
    bytes[at + 1] = static_cast<unsigned char>(half >> 8);
  };
  const std::size_t block = kernels::block_shape(type).bytes;
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    const float sign = random.bits() >> 31 != 0 ? 1.0f : -1.0f;
    const float step = sign * scale / quants * (0.75f + 0.25f * std::abs(random.number()));
    put_half(at, step);
    if (type == TensorType::q4_1) put_half(at + 2, step * (-7.5f + random.number()));
  }
  return bytes;
}

}  // namespace attacca::test::streamed_linear_test
