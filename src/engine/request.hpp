// request.hpp: from a request as its sender wrote it to tokens and sampling parameters. All of it
// is checked here: what is wrong is a BadArgument that names the value.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <vector>

#include "engine/model_data.hpp"
#include "engine/slot_memory.hpp"

namespace attacca::engine {

/// The tokens of a request's prompt, messages or tokens, of which it gives one.
std::vector<std::int32_t> prompt_of(const llm::Request& request,
                                    const llm::detail::ModelData& model);

/// How a request samples, but for the position of its last token.
SlotSampling sampling_of(const llm::Request& request, const model::ModelConfig& config);

}  // namespace attacca::engine
