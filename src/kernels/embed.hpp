// embed.hpp: copies a step's tokens' rows out of the embedding table, as floats or into a Residual.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/matrix.hpp"
#include "kernels/quantization.hpp"
#include "kernels/residual.hpp"

namespace attacca::kernels {

struct EmbedArgs {
  const std::int32_t* tokens;  // [capacity]; REQUIRES: each in [0, table.rows)
  RowCount rows;
  Matrix table;  // [vocabulary, columns]
  float* y;      // [capacity, table.columns]
};

/// The same into a Residual, for CUDA's streamed steps.
struct EmbedResidualArgs {
  const std::int32_t* tokens;
  RowCount rows;
  Matrix table;
  Residual residual;
  const float* next_norm;  // [columns]
};

/// An element of a token's row.
ATTACCA_HD inline float embedded(const EmbedResidualArgs& a, std::uint64_t row,
                                 std::uint32_t column) {
  return element(a.table.type, a.table.row(static_cast<std::uint32_t>(a.tokens[row])), column);
}

const Kernel<EmbedArgs>& embed();
const Kernel<EmbedResidualArgs>& embed_residual();
/// One block's rows, on the host.
void embed_residual_on_host(Thread& t, const EmbedResidualArgs& args);
Grid grid_of(const EmbedResidualArgs& args, bool is_cuda);
Grid grid_of(const EmbedArgs& args, bool is_cuda);

}  // namespace attacca::kernels
