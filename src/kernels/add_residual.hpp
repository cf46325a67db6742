// add_residual.hpp: adds rows to a Residual and prepares it for the next norm, where an exchange
// between ranks stands between a product and its residual. Where the memory of all ranks can be
// addressed, it adds up their parts too, and the exchange is only a barrier.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/residual.hpp"

namespace attacca::kernels {

struct AddResidualArgs {
  static constexpr int kMostParts = 8;

  const float* parts[kMostParts];  // [capacity, residual.columns] each; added in their order
  std::int32_t count;              // of parts
  RowCount rows;
  Residual residual;
  const float* next_norm;  // [residual.columns]
};

const Kernel<AddResidualArgs>& add_residual();
Grid grid_of(const AddResidualArgs& args, bool is_cuda);

}  // namespace attacca::kernels
