// rank_step.hpp: times a decode step of a model that is split over ranks of one process.
#pragma once

#include <attacca/llm.hpp>
#include <attacca/ranks.hpp>

namespace bench {

struct RankStep {
  int top_k = 0;  // tokens are drawn with it; 0: the most probable one is taken
  bool fuses_sums = true;
};

/// Microseconds of a decode step of one sequence. On a host device each rank has one thread.
double rank_step_us(const attacca::llm::Model& model, const attacca::Device& device, int ranks,
                    attacca::Transport transport, const RankStep& step = {});

}  // namespace bench
