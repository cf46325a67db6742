// engine_runs.hpp: what the engine's benchmarks share: the model they run, tokens that mean
// nothing.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <vector>

#include "harness.hpp"

namespace bench {

/// The one asked for, else SmolLM2 where `attacca pull smollm2` fetched it, else the embedded one.
attacca::llm::Model model_of(Run& run);

/// `count` tokens, the same for the same seed.
std::vector<std::int32_t> random_tokens(const attacca::llm::Model& model, std::size_t count,
                                        unsigned seed);

}  // namespace bench
