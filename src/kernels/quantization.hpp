// quantization.hpp: decodes the elements of a Matrix one at a time: the plain reference of every
// tensor type, for host and device. The fast readers are in linear/host/formats-inl.hpp and
// linear/streamed_weights.cuh.
//
// A quantized element is scale * q + offset, with a small integer q and with a scale and an offset
// that 32 (Q6_K: 16) neighbours share. The types with 256 elements in a block keep the scales and
// offsets themselves as small integers, times one or two numbers for the whole block.
#pragma once

#include <bit>

#include "kernels/matrix.hpp"

namespace attacca::kernels {

ATTACCA_HD inline float float_of_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Rounds to the nearest bf16, ties to even. NaN stays NaN.
ATTACCA_HD inline std::uint16_t bfloat_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

ATTACCA_HD inline float float_of_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t rest = (bits & 0x7fffu) << 13;
  if (rest >= 0x7c00u << 13) return std::bit_cast<float>(sign | 0x7f800000u | rest);
  // The exponent's bias changes from 15 to 127; the product also normalizes subnormals.
  return std::bit_cast<float>(sign |
                              std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) * 0x1p112f));
}

/// Rounds to the nearest half, ties to even; too large numbers become infinite. NaN stays NaN.
ATTACCA_HD inline std::uint16_t half_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  if (value != value) return static_cast<std::uint16_t>(sign | 0x7e00u);
  const float size = std::bit_cast<float>(bits & 0x7fffffffu);
  if (size >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (size < 0x1p-14f)  // the sum rounds to multiples of 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(size + 0.5f) & 0x7ffu));
  // The exponent's bias changes from 127 to 15.
  const std::uint32_t rebased = std::bit_cast<std::uint32_t>(size) - (112u << 23);
  return static_cast<std::uint16_t>(sign | (rebased + 0xfffu + (rebased >> 13 & 1u)) >> 13);
}

/// e4m3: four bits of exponent, three of fraction, no infinity; 448 is the largest.
ATTACCA_HD inline float float_of_e4m3(std::uint8_t bits) {
  const std::uint32_t rest = bits & 0x7fu;
  if (rest == 0x7fu) return std::bit_cast<float>(0x7fc00000u);
  const float size = std::bit_cast<float>(rest << 20) * 0x1p120f;  // subnormals too
  return bits & 0x80u ? -size : size;
}

/// Rounds to the nearest e4m3, ties to even; saturates at 448.
ATTACCA_HD inline std::uint8_t e4m3_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 24 & 0x80u;
  const float size = std::bit_cast<float>(bits & 0x7fffffffu);
  std::uint32_t rest = 0x7f;
  if (size >= 448)
    rest = 0x7e;
  else if (size < 0x1p-6f)  // the sum rounds to multiples of 2^-9
    rest = std::bit_cast<std::uint32_t>(size + 0x1p14f) & 15u;
  else if (size == size)
    rest = ((bits & 0x7fffffffu) + 0x7ffffu + (bits >> 20 & 1u)) / (1u << 20) - (120u << 3);
  return static_cast<std::uint8_t>(sign | rest);
}

namespace quantization {

using Bytes = const unsigned char*;

ATTACCA_HD inline std::uint16_t word_at(Bytes at) {
  return static_cast<std::uint16_t>(at[0] | at[1] << 8);
}
ATTACCA_HD inline float half_at(Bytes at) { return float_of_half(word_at(at)); }

/// Element i of 2 * `half` values in 4 bits: the first half in the low nibbles, then the high ones.
ATTACCA_HD inline int nibble(Bytes values, unsigned i, unsigned half) {
  return i < half ? values[i] & 15 : values[i - half] >> 4;
}

/// Scale and offset of one of the eight parts of a Q4_K or Q5_K block: 6 bits each, in 12 bytes.
struct Part {
  float scale;
  float offset;
};
ATTACCA_HD inline Part part_of(Bytes block, unsigned part) {
  Bytes packed = block + 4;
  const int scale =
      part < 4 ? packed[part] & 63 : (packed[part + 4] & 15) | packed[part - 4] >> 6 << 4;
  const int least =
      part < 4 ? packed[part + 4] & 63 : packed[part + 4] >> 4 | packed[part] >> 6 << 4;
  return {half_at(block) * static_cast<float>(scale),
          -(half_at(block + 2) * static_cast<float>(least))};
}

ATTACCA_HD inline float q4_k(Bytes block, unsigned i) {
  const Part part = part_of(block, i / 32);
  return part.scale * static_cast<float>(nibble(block + 16 + i / 64 * 32, i % 64, 32)) +
         part.offset;
}
ATTACCA_HD inline float q5_k(Bytes block, unsigned i) {
  const Part part = part_of(block, i / 32);
  const int fifth = block[16 + i % 32] >> i / 32 & 1;
  const int q = nibble(block + 48 + i / 64 * 32, i % 64, 32) | fifth << 4;
  return part.scale * static_cast<float>(q) + part.offset;
}
ATTACCA_HD inline float q6_k(Bytes block, unsigned i) {
  const unsigned half = i / 128;
  const unsigned column = i % 128;
  const int low = nibble(block + half * 64, column, 64);
  const int high = block[128 + half * 32 + column % 32] >> column / 32 * 2 & 3;
  const int scale = static_cast<signed char>(block[192 + i / 16]);
  return half_at(block + 208) * static_cast<float>(scale) *
         static_cast<float>((low | high << 4) - 32);
}

}  // namespace quantization

/// Element `column` of a row of weights; for e4m3 without the scale of its row.
ATTACCA_HD inline float element(TensorType type, const void* row, std::uint32_t column) {
  const BlockShape shape = block_shape(type);
  const unsigned i = column % shape.elements;
  const quantization::Bytes block =
      static_cast<quantization::Bytes>(row) +
      static_cast<std::uint64_t>(column / shape.elements) * shape.bytes;
  switch (type) {
    case TensorType::f32:
      return *reinterpret_cast<const float*>(block);
    case TensorType::f16:
      return quantization::half_at(block);
    case TensorType::bf16:
      return float_of_bfloat(quantization::word_at(block));
    case TensorType::q8_0:
      return quantization::half_at(block) *
             static_cast<float>(static_cast<signed char>(block[2 + i]));
    case TensorType::q4_0:
      return quantization::half_at(block) *
             static_cast<float>(quantization::nibble(block + 2, i, 16) - 8);
    case TensorType::q4_1:
      return quantization::half_at(block) *
                 static_cast<float>(quantization::nibble(block + 4, i, 16)) +
             quantization::half_at(block + 2);
    case TensorType::q4_k:
      return quantization::q4_k(block, i);
    case TensorType::q5_k:
      return quantization::q5_k(block, i);
    case TensorType::q6_k:
      return quantization::q6_k(block, i);
    case TensorType::e4m3:
      return float_of_e4m3(*block);
  }
  return 0;
}

}  // namespace attacca::kernels
