// ranked.hpp: an engine whose model is split over ranks. All ranks compare what they have before
// any of them allocates something; rank 0 chooses the sizes; the others follow its plans.
#pragma once

#include <attacca/llm.hpp>
#include <memory>
#include <optional>

#include "engine/model_data.hpp"
#include "engine/step_runner.hpp"
#include "model/config.hpp"
#include "schedule/state.hpp"

namespace attacca::engine {

/// A rank's part of a model, and the sizes of the engine.
struct RankedModel {
  model::ModelConfig config;
  schedule::Limits limits;
  std::optional<Group> exchanges = {};  // the ranks on the device
};

/// Compares the ranks and fills in the options. Without ranks it is `size_engine`. Throws
/// BadArgument, on all ranks alike, if they do not fit together.
RankedModel agree_as_first(const llm::detail::ModelData& model, llm::EngineOptions& options);

/// Loads this rank's part of the weights. REQUIRES: `model` and `config` outlive the runner.
std::unique_ptr<StepRunner> make_runner(const llm::detail::ModelData& model,
                                        const model::ModelConfig& config,
                                        const llm::EngineOptions& options, const StepSetup& setup,
                                        const formats::Progress& progress);

/// See llm::follow.
void follow(const llm::detail::ModelData& model, llm::EngineOptions options,
            const formats::Progress& progress);

}  // namespace attacca::engine
