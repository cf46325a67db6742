// linear.hpp: y = W x + b for the rows of a step, with the bias, the residual addition or the gate
// fused in, for all weight types and devices. A row's result is the same bits whatever other rows
// the step has. The fast CUDA kernels are streamed_linear.hpp and the sm90_* files.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/matrix.hpp"

namespace attacca::kernels {

/// One product, or up to three of the same rows (query, key, value).
struct LinearArgs {
  static constexpr unsigned kMaxParts = 3;
  Rows x;
  RowCount rows;
  Matrix w[kMaxParts];           // w[i].columns == x.columns
  const float* bias[kMaxParts];  // [w[i].rows], or null
  std::uint32_t parts;
  bool adds;  // y += instead of y =, as in the residual stream
  float* y;   // [capacity, sum of w[i].rows]
  // The columns are cut into this many equal sections, a power of two, and the sums of sections are
  // added in pairs: (0 + 1) + (2 + 3), to which y comes with section 0. So ranks that have some of
  // the sections each give the same bits. At most 4, without a bias; on CUDA 1.
  std::uint32_t sections = 1;
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

/// The grid on the host or on CUDA.
Grid grid_of(const LinearArgs& args, bool is_cuda);
Grid grid_of(const GatedLinearArgs& args, bool is_cuda);

/// The sections of a product whose columns are split over `ranks`: `w` has one rank's. Four on all
/// ranks together if they fit in whole blocks of the weights' type, else two or one.
std::uint32_t sections_for(const Matrix& w, int ranks, bool is_cuda);

/// The row format that is fastest with these weights.
RowFormat row_format_for(TensorType weights, bool is_cuda);

}  // namespace attacca::kernels
