// engine_runs.hpp: what the engine's benchmarks share: the model that they run, and random tokens.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "harness.hpp"

namespace bench {

/// The path of the requested model, else of SmolLM2 if `attacca pull smollm2` fetched it; empty for
/// the embedded model, with a note that says so.
std::string model_path_of(Run& run);
attacca::llm::Model model_of(Run& run);

/// `count` tokens, the same for the same seed.
std::vector<std::int32_t> random_tokens(const attacca::llm::Model& model, std::size_t count,
                                        unsigned seed);

}  // namespace bench
