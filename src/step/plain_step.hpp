// plain_step.hpp: the kernels of a step on the host, and on CUDA for weights that cannot be
// streamed: eight a layer.
#pragma once

#include <span>

#include "step/chain.hpp"
#include "step/step_memory.hpp"

namespace attacca::step {

/// The fastest format of rows of x that all of these weights can read.
kernels::RowFormat row_format_for(std::span<const kernels::Matrix> weights, bool is_cuda);

/// From tokens to logits.
void emit_plain(Chain& chain, const StepMemory& memory, const StepShape& shape);

}  // namespace attacca::step
