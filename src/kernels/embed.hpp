// embed.hpp: the rows of an embedding table that a step's tokens name.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/matrix.hpp"

namespace attacca::kernels {

struct EmbedArgs {
  const std::int32_t* tokens;  // [capacity]; REQUIRES: each in [0, table.rows)
  RowCount rows;
  Matrix table;  // [vocabulary, columns]
  float* y;      // [capacity, table.columns]
};

const Kernel<EmbedArgs>& embed();
Grid grid_of(const EmbedArgs& args, bool is_cuda);

}  // namespace attacca::kernels
