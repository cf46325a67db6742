// rms_norm.hpp: y = x / rms(x) * weight for the rows of a step, in the format that the next linear
// kernel reads. With `gather` it also selects the rows whose logits are wanted. CUDA's streamed
// steps fuse their norms; see residual.hpp.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"

namespace attacca::kernels {

struct RmsNormArgs {
  const float* x;              // [capacity of the producer, y.columns]
  const float* weight;         // [y.columns]
  const std::int32_t* gather;  // [rows.capacity]: row i reads x[gather[i]]; null: x[i]
  RowCount rows;
  float epsilon;
  Rows y;
};

const Kernel<RmsNormArgs>& rms_norm();
Grid grid_of(const RmsNormArgs& args, bool is_cuda);

}  // namespace attacca::kernels
