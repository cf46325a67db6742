// sizing.hpp: from options and free memory to the limits of an engine, or to a refusal with the
// numbers.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>

#include "engine/step_runner.hpp"
#include "kernels/attention/paged_kv.hpp"
#include "model/checkpoint.hpp"
#include "schedule/state.hpp"

namespace attacca::engine {

/// A model's weights as a GPU will have them.
struct GpuWeights {
  std::size_t bytes = 0;       // that are still to be allocated
  bool are_streamed = true;    // in all products of layers, see step::can_stream
  bool are_quantized = false;  // in some product
};
GpuWeights gpu_weights(const model::Checkpoint& checkpoint, llm::WeightFormat format);

/// Fills in the options that were left to us. Throws BadArgument where something cannot fit.
schedule::Limits size_engine(const model::Checkpoint& checkpoint, llm::EngineOptions& options);
schedule::Limits size_engine(const model::ModelConfig& config, const GpuWeights& weights,
                             llm::EngineOptions& options);

/// What steps need to know of options that were filled in.
StepSetup setup_of(const schedule::Limits& limits, const llm::EngineOptions& options);

/// A type that is not automatic, as kernels know it.
kernels::KvType kernel_type(llm::KvType type);

/// The longest sequence that these limits can finish.
std::size_t most_tokens(const schedule::Limits& limits);

}  // namespace attacca::engine
