// carry_tokens.hpp: the first kernel of a step that was planned while the step before it ran. It
// copies the tokens that the host did not know then from the results of that step, on the device.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/sample/sample.hpp"

namespace attacca::kernels {

struct CarryTokensArgs {
  const std::int32_t* from;  // [capacity]: row of the step before, or -1 if `tokens` has it
  RowCount rows;
  const Sampled* sampled;  // of the step before
  std::int32_t* tokens;    // [capacity]
};

const Kernel<CarryTokensArgs>& carry_tokens();
Grid grid_of(const CarryTokensArgs& args, bool is_cuda);

}  // namespace attacca::kernels
