// linear.hpp: y = W x + b for the rows of a step, with what surrounds it fused in.
// The result of a row is the same bits whatever other rows the step has.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/matrix.hpp"

namespace attacca::kernels {

/// Up to three products of the same rows side by side (query, key, value), or one.
struct LinearArgs {
  static constexpr unsigned kMaxParts = 3;
  Rows x;
  RowCount rows;
  Matrix w[kMaxParts];           // w[i].columns == x.columns
  const float* bias[kMaxParts];  // [w[i].rows], or null
  std::uint32_t parts;
  bool adds;  // y += instead of y =, for the residual stream
  float* y;   // [capacity, sum of w[i].rows]
};

/// y = silu(gate x) * (up x)
struct GatedLinearArgs {
  Rows x;
  RowCount rows;
  Matrix gate;  // [y.columns, x.columns]
  Matrix up;    // as gate
  Rows y;
};

const Kernel<LinearArgs>& linear();
const Kernel<GatedLinearArgs>& gated_linear();

/// The grid for a device: blocks of weight rows.
Grid grid_of(const LinearArgs& args, bool is_cuda);
Grid grid_of(const GatedLinearArgs& args, bool is_cuda);

/// The format in which rows for these weights are fastest there.
RowFormat row_format_for(TensorType weights, bool is_cuda);

}  // namespace attacca::kernels
