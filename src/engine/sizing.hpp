// sizing.hpp: from options and free memory to the limits of an engine, or to a refusal with the
// numbers.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>

#include "device/schedule/state.hpp"
#include "model/checkpoint.hpp"

namespace attacca::engine {

/// Fills in the options that were left to us. Throws BadArgument where something cannot fit.
schedule::Limits size_engine(const model::Checkpoint& checkpoint, llm::EngineOptions& options);

/// The longest sequence that these limits can finish.
std::size_t most_tokens(const schedule::Limits& limits);

inline constexpr std::size_t kStateAlignment = 64;
/// The first suitable address for a schedule's state in `memory`.
void* aligned_state(std::byte* memory);

}  // namespace attacca::engine
