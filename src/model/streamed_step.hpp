// streamed_step.hpp: the kernels of a step on CUDA for bf16 weights: five a layer, each of which
// begins to read its weights while the one before it ends.
#pragma once

#include "model/chain.hpp"
#include "model/transformer.hpp"

namespace attacca::model {

/// Whether all products can be streamed: bf16 and whole tiles.
bool can_stream(const Weights& weights);

/// From tokens to logits. REQUIRES: can_stream, and buffers with a scratch.
void emit_streamed(Chain& chain, const ModelConfig& config, const Weights& weights,
                   const StepBuffers& buffers, const StepActivations& activations,
                   const StepShape& shape);

}  // namespace attacca::model
