// matrix.hpp: the layout of weights in memory. A Matrix is a view of a file's bytes: rows of
// `columns` elements, one after another, each row a run of blocks of its type. Decoding is left to
// quantization.hpp.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca::kernels {

/// The element types of weights. The quantized ones are GGUF's, bit for bit. No file has e4m3: it
/// is made at load, with a scale for each row.
enum class TensorType : std::uint32_t { f32, f16, bf16, q8_0, q4_0, q4_1, q4_k, q5_k, q6_k, e4m3 };
inline constexpr unsigned kTensorTypes = 9;  // that files have

/// Elements that are stored together, and the bytes they take.
struct BlockShape {
  std::uint32_t elements;
  std::uint32_t bytes;
};

ATTACCA_HD constexpr BlockShape block_shape(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return {1, 4};
    case TensorType::f16:
      return {1, 2};
    case TensorType::bf16:
      return {1, 2};
    case TensorType::q8_0:
      return {32, 34};
    case TensorType::q4_0:
      return {32, 18};
    case TensorType::q4_1:
      return {32, 20};
    case TensorType::q4_k:
      return {256, 144};
    case TensorType::q5_k:
      return {256, 176};
    case TensorType::q6_k:
      return {256, 210};
    case TensorType::e4m3:
      return {1, 1};
  }
  return {1, 0};
}

ATTACCA_HD constexpr bool is_quantized(TensorType type) { return block_shape(type).elements > 1; }

constexpr const char* type_name(TensorType type) {
  constexpr const char* kNames[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0",
                                    "Q4_1", "Q4_K", "Q5_K", "Q6_K", "E4M3"};
  return kNames[static_cast<unsigned>(type)];
}

/// REQUIRES: `columns` is a multiple of the type's block.
ATTACCA_HD constexpr std::uint64_t row_bytes(TensorType type, std::uint64_t columns) {
  const BlockShape shape = block_shape(type);
  return columns / shape.elements * shape.bytes;
}

/// Weights of y = W x: row r makes y[r].
struct Matrix {
  const void* data = nullptr;  // [rows, columns]
  TensorType type = TensorType::f32;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  const float* scales = nullptr;  // e4m3: [rows]

  ATTACCA_HD const void* row(std::uint64_t index) const {
    return static_cast<const unsigned char*>(data) + index * row_bytes(type, columns);
  }
  /// The factor of a row's elements.
  ATTACCA_HD float scale(std::uint64_t index) const { return scales ? scales[index] : 1.0f; }
  ATTACCA_HD std::uint64_t bytes() const { return rows * row_bytes(type, columns); }
};

}  // namespace attacca::kernels
