// streamed_step.hpp: the kernels of a step on CUDA for weights that can be streamed: five a layer.
// Each begins to read its weights while the one before it ends.
#pragma once

#include "step/chain.hpp"
#include "step/step_memory.hpp"

namespace attacca::step {

/// Whether the products of all layers can be streamed, see can_stream_weights. A head that cannot
/// be gets the plain kernel.
bool can_stream(const model::Weights& weights);

/// Query, key and value as one matrix. REQUIRES: can_stream.
kernels::Matrix joined(const model::LayerWeights& w);

/// From tokens to logits. REQUIRES: memory.is_streamed().
void emit_streamed(Chain& chain, const StepMemory& memory, const StepShape& shape);

}  // namespace attacca::step
