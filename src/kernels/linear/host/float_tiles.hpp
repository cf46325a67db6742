// float_tiles.hpp: weights times rows in the format f32. Each weight row and row of x have a vector
// of sums along the columns, whose lanes are added at the end. The operations and their order do
// not depend on the other rows. Quantized weights are unpacked to floats first; products in
// integers are in integer_tiles.hpp.
#pragma once

#include "kernels/linear/host/integer_tiles.hpp"

namespace attacca::kernels::host {

/// Up to 32 rows of weights times some rows of x.
struct FloatTile {
  Matrix w;
  std::uint32_t first;  // row of w
  std::uint32_t rows;   // at most kTileOutputs
  const float* x;       // [count, w.columns]
  std::uint32_t count;
  std::byte* panel;  // scratch of panel_bytes(w.columns), aligned to 64
  float* out;        // [count, kTileOutputs]
};

void multiply(const FloatTile& tile);

}  // namespace attacca::kernels::host
