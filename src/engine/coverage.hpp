// coverage.hpp: which steps have graphs, and why others have none.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <vector>

#include "schedule/state.hpp"

namespace attacca::engine {

/// How a step runs that was given this graph, kNone for none.
llm::StepMode mode_of(const schedule::Limits& limits, llm::GraphMode graphs, std::uint32_t graph);

/// Why a step has no graph. REQUIRES: it has none.
llm::Miss miss_of(const schedule::Limits& limits, llm::GraphMode graphs, std::uint32_t tokens,
                  bool is_decode);

/// Asks the policy itself, for every step that it can form.
std::vector<llm::GraphCoverage> coverage_of(const schedule::Limits& limits, llm::GraphMode graphs);

}  // namespace attacca::engine
