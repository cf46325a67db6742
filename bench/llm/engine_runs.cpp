// engine_runs.cpp: finds the model that the engine's benchmarks run, and makes random tokens.
#include "llm/engine_runs.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <random>
#include <string>

#include "model/cache.hpp"

namespace bench {

std::string model_path_of(Run& run) {
  const EngineChoices& asked = run.engine;
  if (!(asked.batches.empty() && asked.contexts.empty() && asked.tokens.empty() &&
        asked.graphs.empty() && asked.weights.empty()))
    throw attacca::BadArgument(
        "--batch, --context, --tokens, --graphs and --weights go with --shape");
  if (const auto cached =
          attacca::model::cached_model(asked.model.empty() ? "smollm2" : asked.model))
    return cached->string();
  if (asked.model.empty())
    run.note("SmolLM2 is not here, so this is the embedded model; attacca pull smollm2 fetches it");
  return asked.model == "small" ? "" : asked.model;
}

attacca::llm::Model model_of(Run& run) {
  attacca::llm::Model model(model_path_of(run));
  run.note(fmt::format("model: {}", model.name()));
  return model;
}

std::vector<std::int32_t> random_tokens(const attacca::llm::Model& model, std::size_t count,
                                        unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(random() % model.vocabulary());
  return tokens;
}

}  // namespace bench
