// row_block.hpp: converts floats to rows in the format i16 on the host.
// linear/host/integer_tiles.hpp reads them.
#pragma once

#include <cmath>

#include "kernels/activations.hpp"

namespace attacca::kernels {

/// The largest magnitude of a value. Up to it both halves of a value, 256 * high + low, are signed
/// bytes, as processors with byte dot products read them.
inline constexpr float kRowBlockMax = 127 * 256 + 127;

/// The scale of a block, and its inverse, from the largest magnitude in it.
struct RowBlockScale {
  float scale = 0;
  float inverse = 0;
  explicit RowBlockScale(float largest) {
    if (largest < 1e-30f) return;  // treated as zero, since the inverse must be finite
    scale = largest / kRowBlockMax;
    inverse = kRowBlockMax / largest;
  }
};

/// A plain version of one block of to_row_blocks, with the same bits.
inline void to_row_block(const float* x, RowBlock& y) {
  float largest = 0;
  for (unsigned i = 0; i < RowBlock::kElements; ++i) largest = std::fmax(largest, std::fabs(x[i]));
  const RowBlockScale scale(largest);
  std::int32_t sum = 0;
  for (unsigned i = 0; i < RowBlock::kElements; ++i) {
    y.values[i] = static_cast<std::int16_t>(std::nearbyint(x[i] * scale.inverse));
    sum += y.values[i];
  }
  y.scale = scale.scale;
  y.sum = y.scale * static_cast<float>(sum);
}

/// Converts a row of `columns` floats to blocks. REQUIRES: `columns` is a multiple of 32.
void to_row_blocks(const float* x, std::uint32_t columns, RowBlock* y);

}  // namespace attacca::kernels
