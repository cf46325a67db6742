// outcome.hpp: turns what a scheduler learns about a row into a job's outcome. Both schedulers use
// it.
#pragma once

#include "core/ending.hpp"
#include "driver/job.hpp"
#include "kernels/sample/sample.hpp"

namespace attacca::engine {

/// A token, an end, or both. `token` is -1 for none; `position` is the row's.
driver::Outcome outcome_of(const driver::JobPtr& job, std::int32_t token, Ending ending,
                           std::uint32_t position);

/// The end of a job that cannot go on.
driver::Outcome failure_of(const driver::JobPtr& job, std::string error);

llm::TokenLogprob logprob_of(std::int32_t token, const kernels::Sampled& sampled);

}  // namespace attacca::engine
