// sizing.hpp: from options and free memory to the limits of an engine, or to a refusal with the
// numbers.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>

#include "device/schedule/state.hpp"
#include "kernels/paged_kv.hpp"
#include "model/checkpoint.hpp"

namespace attacca::engine {

/// Fills in the options that were left to us. Throws BadArgument where something cannot fit.
schedule::Limits size_engine(const model::Checkpoint& checkpoint, llm::EngineOptions& options);

/// A type that is not automatic, as kernels know it.
kernels::KvType kernel_type(llm::KvType type);

/// The longest sequence that these limits can finish.
std::size_t most_tokens(const schedule::Limits& limits);

}  // namespace attacca::engine
