// activations.hpp: the rows of activations that flow between kernels. A step computes up to
// `capacity` rows, one for each token, at addresses that never move. How many are real is read when
// the step runs.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca::kernels {

/// The format of rows that a linear kernel reads.
///  f32   plain floats
///  i16   for quantized weights on the host: per 32 elements a scale and 16-bit integers. Integer
///        products are exact, so a row's result does not depend on what else is in the batch.
enum class RowFormat : std::uint32_t { f32, i16 };

/// 32 elements of a row in the format i16: element i is scale * values[i].
struct RowBlock {
  static constexpr unsigned kElements = 32;
  float scale;
  float sum;  // of scale * values[i], for weights with an offset
  std::int16_t values[kElements];
};
static_assert(sizeof(RowBlock) == 72);

/// Bytes of one row. REQUIRES: for i16, `columns` is a multiple of 32.
ATTACCA_HD constexpr std::uint64_t row_stride(RowFormat format, std::uint64_t columns) {
  return format == RowFormat::f32 ? columns * sizeof(float)
                                  : columns / RowBlock::kElements * sizeof(RowBlock);
}

/// Rows that a linear kernel reads.
struct Rows {
  void* data = nullptr;  // [capacity, columns] in `format`
  RowFormat format = RowFormat::f32;
  std::uint32_t columns = 0;

  ATTACCA_HD void* row(std::uint64_t index) const {
    return static_cast<unsigned char*>(data) + index * row_stride(format, columns);
  }
};

/// How many rows of a step are real: the first `*count` of `capacity`. Kernels write no other.
struct RowCount {
  const std::uint32_t* count = nullptr;
  std::uint32_t capacity = 0;
};

}  // namespace attacca::kernels
