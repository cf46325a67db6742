// request.hpp: turns a request into tokens and sampling parameters. All of it is checked here: a
// wrong value throws a BadArgument that names it.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <vector>

#include "driver/slot_sampling.hpp"
#include "engine/model_data.hpp"

namespace attacca::engine {

/// The tokens of a request's prompt, messages or tokens, of which it gives one.
std::vector<std::int32_t> prompt_of(const llm::Request& request,
                                    const llm::detail::ModelData& model);

/// A request's sampling parameters, without the position of its last token.
driver::SlotSampling sampling_of(const llm::Request& request, const model::ModelConfig& config);

llm::Priority priority_of(const llm::Request& request);

}  // namespace attacca::engine
