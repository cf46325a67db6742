// put_residual.hpp: writes one value of a Residual, for the kernels that make whole rows of it: one
// block of rows at a time on the host, and one thread for each element on CUDA.
#pragma once

#include <algorithm>
#include <attacca/thread.hpp>
#include <cstdint>

#include "kernels/activations.hpp"
#include "kernels/blocks.hpp"
#include "kernels/quantization.hpp"
#include "kernels/residual.hpp"

namespace attacca::kernels {

/// Returns the value's square.
ATTACCA_HD inline float put_value(const Residual& to, const float* next_norm, std::uint64_t row,
                                  std::uint32_t column, float value) {
  const std::uint64_t at = row * to.columns + column;
  const float scaled = value * next_norm[column];
  const std::uint16_t rounded = bfloat_of_float(scaled);
  to.values[at] = value;
  to.scaled[at] = rounded;
  if (to.rest) to.rest[at] = bfloat_of_float(scaled - float_of_bfloat(rounded));
  return value * value;
}

/// `value(row, column)` gives what the residual becomes.
template <class Value>
void put_rows(Thread& t, const Residual& to, const RowCount& rows, const float* next_norm,
              const Value& value) {
  const RowRange range = rows_of_block(std::min(*rows.count, rows.capacity), t.block.x, t.blocks.x);
  for (std::uint32_t row = range.first; row < range.last; ++row)
    for (std::uint32_t part = 0; part < to.parts(); ++part) {
      float squares = 0;
      for (std::uint32_t i = 0; i < Residual::kPart; ++i) {
        const std::uint32_t column = part * Residual::kPart + i;
        squares += put_value(to, next_norm, row, column, value(row, column));
      }
      to.squares[std::uint64_t{row} * to.parts() + part] = squares;
    }
}

#if defined(__CUDACC__)
/// The elements of a part are neighbours in a warp, which sums their squares.
template <class Value>
__device__ void put_element(const Thread& t, const Residual& to, const RowCount& rows,
                            const float* next_norm, const Value& value) {
  const std::uint64_t row = t.index() / to.columns;
  if (row >= *rows.count || row >= rows.capacity) return;
  const auto column = static_cast<std::uint32_t>(t.index() % to.columns);
  static_assert(Residual::kPart == 16);
  const unsigned lanes = 0xffffu << (threadIdx.x & 16);
  float squares = put_value(to, next_norm, row, column, value(row, column));
  for (unsigned step = Residual::kPart / 2; step != 0; step /= 2)
    squares += __shfl_xor_sync(lanes, squares, step);
  if (column % Residual::kPart == 0)
    to.squares[row * to.parts() + column / Residual::kPart] = squares;
}
#endif

}  // namespace attacca::kernels
