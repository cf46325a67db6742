// gather_residual.hpp: copies some rows of a residual next to each other, for a linear kernel that
// cannot gather: the scaled values and the squares for the norm, not the values themselves.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/residual.hpp"

namespace attacca::kernels {

struct GatherResidualArgs {
  Residual from;               // values are not read
  const std::int32_t* gather;  // [capacity]: row of `from`
  RowCount rows;
  Residual to;  // values are not written
};

const Kernel<GatherResidualArgs>& gather_residual();
Grid grid_of(const GatherResidualArgs& args, bool is_cuda);

}  // namespace attacca::kernels
