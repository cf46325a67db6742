// coverage.hpp: tells which steps have graphs, and why the others have none. It builds no graph.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <vector>

#include "schedule/state.hpp"

namespace attacca::engine {

/// How a step with this graph runs; kNone stands for no graph.
llm::StepMode mode_of(const schedule::Limits& limits, llm::GraphMode graphs, std::uint32_t graph);

/// Why a step has no graph. REQUIRES: it has none.
llm::Miss miss_of(const schedule::Limits& limits, llm::GraphMode graphs, std::uint32_t tokens,
                  bool is_decode);

/// The record of a planned step, without its number and its time.
llm::StepRecord record_of(const schedule::Limits& limits, llm::GraphMode graphs,
                          const schedule::Counts& counts);

/// Asks the policy about every step that it can form.
std::vector<llm::GraphCoverage> coverage_of(const schedule::Limits& limits, llm::GraphMode graphs);

/// Throws BadArgument unless every such step has a graph: a loop on the device launches no kernels
/// one by one.
void require_graphs(const schedule::Limits& limits, llm::GraphMode graphs);

}  // namespace attacca::engine
