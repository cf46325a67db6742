// rank_step.hpp: times a decode step of a model that is split over ranks of one process.
#pragma once

#include <attacca/llm.hpp>
#include <attacca/ranks.hpp>

namespace bench {

/// Microseconds of a decode step of one sequence. On a host device each rank has one thread.
/// `top_k`: tokens are drawn with it instead of the most probable one taken.
double rank_step_us(const attacca::llm::Model& model, const attacca::Device& device, int ranks,
                    attacca::Transport transport, int top_k = 0);

}  // namespace bench
