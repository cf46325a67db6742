// step.hpp: the kernels of one step, from tokens to sampled tokens.
#pragma once

#include <span>
#include <string>

#include "step/chain.hpp"
#include "step/step_memory.hpp"

namespace attacca::step {

/// The kernels from tokens to logits: those of streamed_step.hpp if the memory is for them, else
/// those of plain_step.hpp.
Chain emit_logits(const StepMemory& memory, const StepShape& shape);

/// Why the kernels of such a step are not one persistent kernel; empty if they are. See
/// StepSizes::form.
std::string why_not_persistent(const StepMemory& memory, const StepShape& shape);

/// A whole step: the same, then sampling.
Chain emit_step(const StepMemory& memory, const StepShape& shape);

}  // namespace attacca::step
