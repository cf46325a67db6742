// gather_residual.hpp: some rows of a residual, one after another, for a product that reads rows as
// they lie: what was scaled for it, and the squares of its norm.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/residual.hpp"

namespace attacca::kernels {

struct GatherResidualArgs {
  Residual from;               // values are not read
  const std::int32_t* gather;  // [capacity]: which row
  RowCount rows;
  Residual to;  // values are not written
};

const Kernel<GatherResidualArgs>& gather_residual();
Grid grid_of(const GatherResidualArgs& args, bool is_cuda);

}  // namespace attacca::kernels
