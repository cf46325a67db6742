// step.hpp: the kernels of one step, from tokens to sampled tokens.
#pragma once

#include <span>

#include "step/chain.hpp"
#include "step/step_memory.hpp"

namespace attacca::step {

/// The kernels from tokens to logits: streamed_step.hpp's where the memory is for them, else
/// plain_step.hpp's.
Chain emit_logits(const StepMemory& memory, const StepShape& shape);

/// A whole step: the same, then sampling.
Chain emit_step(const StepMemory& memory, const StepShape& shape);

}  // namespace attacca::step
