// add_residual.hpp: adds rows to a Residual and prepares it for the next norm, where an exchange
// between ranks stands between a product and its residual.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/residual.hpp"

namespace attacca::kernels {

struct AddResidualArgs {
  const float* x;  // [capacity, residual.columns]
  RowCount rows;
  Residual residual;
  const float* next_norm;  // [residual.columns]
};

const Kernel<AddResidualArgs>& add_residual();
Grid grid_of(const AddResidualArgs& args, bool is_cuda);

}  // namespace attacca::kernels
