// float_tiles.hpp: weights times rows in the format f32. Each weight row and row of x have a vector
// of sums along the columns of a section, whose lanes are added at its end. The operations and
// their order do not depend on the other rows. Quantized weights are unpacked to floats first;
// products in integers are in integer_tiles.hpp.
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
  float* out;        // [count, kTileOutputs]; with `adds`, what section 0 is added to
  std::uint32_t sections = 1;
  bool adds = false;
};

void multiply(const FloatTile& tile);

}  // namespace attacca::kernels::host
