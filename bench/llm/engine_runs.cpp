// engine_runs.cpp: see engine_runs.hpp.
#include "llm/engine_runs.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <random>
#include <string>

#include "model/cache.hpp"

namespace bench {

attacca::llm::Model model_of(Run& run) {
  const EngineChoices& asked = run.engine;
  if (!(asked.batches.empty() && asked.contexts.empty() && asked.tokens.empty() &&
        asked.graphs.empty()))
    throw attacca::BadArgument("--batch, --context, --tokens and --graphs go with --shape");
  std::string path = asked.model;
  if (const auto cached = attacca::model::cached_model(path.empty() ? "smollm2" : path))
    path = cached->string();
  attacca::llm::Model model(path == "small" ? "" : path);
  run.note(fmt::format("model: {}", model.name()));
  if (path.empty())
    run.note("SmolLM2 is not here, so this is the embedded model; attacca pull smollm2 fetches it");
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
