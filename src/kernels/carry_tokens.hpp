// carry_tokens.hpp: the head of a step that was planned while the one before it ran: tokens that
// nobody knew then are taken from what that step has sampled, on the device.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/sample/sample.hpp"

namespace attacca::kernels {

struct CarryTokensArgs {
  const std::int32_t* from;  // [capacity]: the row of the step before, or -1 where `tokens` has it
  RowCount rows;
  const Sampled* sampled;  // of the step before
  std::int32_t* tokens;    // [capacity]
};

const Kernel<CarryTokensArgs>& carry_tokens();
Grid grid_of(const CarryTokensArgs& args, bool is_cuda);

}  // namespace attacca::kernels
