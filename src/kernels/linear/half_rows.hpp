// half_rows.hpp: makes f16 of bf16 rows, for products of many rows with f16 weights
// (sm90_tiled_linear.hpp). f16 has fewer exponents, so each row is multiplied by a power of two
// that brings its largest number to [2^14, 2^15): what is less than 2^-28 of that loses bits, all
// else keeps them. The product undoes it together with the norm.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

#include "kernels/activations.hpp"

namespace attacca::kernels {

struct HalfRowsArgs {
  std::uint16_t* x;       // [capacity, columns]: bf16 before, f16 after; 16-byte aligned
  std::uint32_t columns;  // a multiple of 16
  const float* squares;   // of x before scaling, as in Residual; null: no norm
  float epsilon;          // of the norm
  RowCount rows;
  // [capacity, columns / Residual::kPart]: squares by which a norm with an epsilon of 0 undoes the
  // power of two, and is the norm above if there is one. May be `squares`.
  float* scaled_squares;
};

const Kernel<HalfRowsArgs>& half_rows();
Grid grid_of(const HalfRowsArgs& args, bool is_cuda);

}  // namespace attacca::kernels
