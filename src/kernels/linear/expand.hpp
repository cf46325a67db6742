// expand.hpp: writes weights as bf16, so that a product of many rows can use the kernels for bf16.
// A step with many rows expands each matrix right before it multiplies it. Products of few rows
// read the weights as they are (streamed_linear.hpp).
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

#include "kernels/matrix.hpp"

namespace attacca::kernels {

struct ExpandArgs {
  Matrix from;        // see can_expand; 16-byte aligned
  std::uint16_t* to;  // [from.rows, from.columns] bf16; 16-byte aligned
};

/// Whether the kernel has the type (Q8_0, Q4_0 or Q4_1) and 32 divides the columns.
bool can_expand(const Matrix& w);

/// REQUIRES: can_expand(args.from).
const Kernel<ExpandArgs>& expand(const ExpandArgs& args);
Grid grid_of(const ExpandArgs& args, bool is_cuda);

}  // namespace attacca::kernels
