// coverage.cpp: asks the policy for the graph of every step size and joins the answers to ranges.
#include "engine/coverage.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <utility>

#include "schedule/step.hpp"

namespace attacca::engine {

using llm::GraphCoverage;
using llm::GraphMode;
using llm::Miss;
using llm::StepMode;

namespace {

/// The size of the largest graph for decode steps or for mixed steps; 0 if there is none.
std::uint32_t largest_graph(const schedule::Limits& limits, bool is_decode) {
  std::uint32_t largest = 0;
  for (std::uint32_t graph = 0; graph < limits.graph_count(); ++graph)
    if (is_decode || !limits.is_decode_graph(graph))
      largest = std::max(largest, limits.graph_tokens(graph));
  return largest;
}

void cover(const schedule::Limits& limits, GraphMode graphs, bool is_decode, std::uint32_t most,
           std::vector<GraphCoverage>& all) {
  const std::size_t first = all.size();
  for (std::uint32_t tokens = 1; tokens <= most; ++tokens) {
    const std::uint32_t graph = schedule::choose_graph(limits, tokens, is_decode);
    const StepMode mode = mode_of(limits, graphs, graph);
    const Miss miss =
        graph == schedule::kNone ? miss_of(limits, graphs, tokens, is_decode) : Miss::none;
    const auto same =
        std::find_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                     [&](const GraphCoverage& c) { return c.mode == mode && c.miss == miss; });
    if (same == all.end())
      all.push_back({is_decode, mode, miss, largest_graph(limits, is_decode), {{tokens, tokens}}});
    else if (same->tokens.back().second + 1 == tokens)
      same->tokens.back().second = tokens;
    else
      same->tokens.emplace_back(tokens, tokens);
  }
}

}  // namespace

StepMode mode_of(const schedule::Limits& limits, GraphMode graphs, std::uint32_t graph) {
  if (graph == schedule::kNone) return StepMode::kernels;
  if (limits.is_decode_graph(graph)) return StepMode::decode;
  return graphs == GraphMode::piecewise ? StepMode::piecewise : StepMode::mixed;
}

Miss miss_of(const schedule::Limits& limits, GraphMode graphs, std::uint32_t tokens,
             bool is_decode) {
  if (graphs == GraphMode::off) return Miss::graphs_off;
  if (graphs == GraphMode::decode && !is_decode) return Miss::mixed_off;
  return tokens > largest_graph(limits, is_decode) ? Miss::above_sizes : Miss::no_exact_size;
}

llm::StepRecord record_of(const schedule::Limits& limits, llm::GraphMode graphs,
                          const schedule::Counts& counts) {
  llm::StepRecord record{.is_decode = counts.is_decode != 0,
                         .mode = mode_of(limits, graphs, counts.graph),
                         .tokens = counts.tokens,
                         .rows = counts.rows};
  if (counts.graph == schedule::kNone) {
    record.miss = miss_of(limits, graphs, counts.tokens, record.is_decode);
  } else {
    record.size = limits.graph_tokens(counts.graph);
    record.padding = record.size - record.tokens;
  }
  return record;
}

std::vector<GraphCoverage> coverage_of(const schedule::Limits& limits, GraphMode graphs) {
  std::vector<GraphCoverage> all;
  cover(limits, graphs, true, limits.slots, all);
  cover(limits, graphs, false, limits.most_mixed(), all);
  return all;
}

std::optional<GraphCoverage> first_without_graph(const schedule::Limits& limits, GraphMode graphs) {
  for (GraphCoverage& part : coverage_of(limits, graphs))
    if (part.mode != StepMode::decode && part.mode != StepMode::mixed) return std::move(part);
  return std::nullopt;
}

void require_graphs(const schedule::Limits& limits, GraphMode graphs) {
  if (const auto part = first_without_graph(limits, graphs))
    throw BadArgument(fmt::format(
        "the resident scheduler needs a graph for every step, and: {}; use graphs full with "
        "padding, and leave decode_sizes and mixed_sizes to their defaults",
        describe(*part)));
}

}  // namespace attacca::engine

namespace attacca::llm {

std::string describe(const GraphCoverage& coverage) {
  std::string text = coverage.is_decode ? "decode " : "mixed ";
  for (std::size_t at = 0; at < coverage.tokens.size(); ++at) {
    const auto [first, last] = coverage.tokens[at];
    text += fmt::format("{}{}", at == 0 ? "" : ", ", first);
    if (last > first) text += fmt::format("..{}", last);
  }
  if (coverage.miss != Miss::none)
    return text + fmt::format(": no graph ({}), launched kernel by kernel",
                              coverage.miss == Miss::above_sizes
                                  ? fmt::format("the largest size is {}", coverage.largest)
                                  : miss_reason(coverage.miss));
  switch (coverage.mode) {
    case StepMode::piecewise:
      return text + ": graphs in pieces, attention between them";
    case StepMode::mixed:
      return text + (coverage.is_decode ? ": graphs of mixed sizes" : ": graphs");
    default:
      return text + ": graphs";
  }
}

}  // namespace attacca::llm
