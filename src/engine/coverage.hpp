// coverage.hpp: tells which steps have graphs, and why the others have none. It builds no graph.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <optional>
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

/// Steps without a graph, or with one in pieces, if there are any. A loop on the device can have
/// none: it launches no kernels one by one.
std::optional<llm::GraphCoverage> first_without_graph(const schedule::Limits& limits,
                                                      llm::GraphMode graphs);

/// Throws BadArgument if there are such steps.
void require_graphs(const schedule::Limits& limits, llm::GraphMode graphs);

}  // namespace attacca::engine
