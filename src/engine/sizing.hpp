// sizing.hpp: computes the limits of an engine from its options and the free memory, or refuses
// with the numbers. It allocates nothing.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>

#include "engine/step_runner.hpp"
#include "kernels/attention/paged_kv.hpp"
#include "model/config.hpp"
#include "model/weights.hpp"
#include "schedule/state.hpp"

namespace attacca::model {
class Checkpoint;
}

namespace attacca::engine {

/// A model's weights as a GPU will hold them.
struct GpuWeights {
  std::size_t bytes = 0;       // still to be allocated
  std::size_t mapped = 0;      // bytes that the host maps instead
  bool are_streamed = true;    // all linear layers but the head are; see step::can_stream
  bool are_quantized = false;  // some linear layer is
  bool are_expanded = false;   // some are, for products of many rows; see kernels/linear/expand.hpp
};
GpuWeights gpu_weights(const model::Checkpoint& checkpoint, llm::WeightFormat format);

/// Fills in the options that have defaults. Throws BadArgument when something does not fit.
schedule::Limits size_engine(const model::Checkpoint& checkpoint, llm::EngineOptions& options);
schedule::Limits size_engine(const model::ModelConfig& config, const GpuWeights& weights,
                             llm::EngineOptions& options);

/// The same limits with other step sizes. Throws BadArgument for sizes that are empty or do not
/// fit.
schedule::Limits with_sizes(const schedule::Limits& limits, const std::vector<unsigned>& decode,
                            const std::vector<unsigned>& mixed);

/// The options that steps depend on. REQUIRES: `size_engine` filled them in.
StepSetup setup_of(const schedule::Limits& limits, const llm::EngineOptions& options);

/// The kernels' name for a type. REQUIRES: it is not automatic.
kernels::KvType kernel_type(llm::KvType type);

/// How a model holds weights of that format.
model::WeightFormat model_format(llm::WeightFormat format);

/// The tokens of the longest sequence that these limits can finish.
std::size_t most_tokens(const schedule::Limits& limits);

}  // namespace attacca::engine
