// plan.hpp: which sizes of steps should have graphs. `judge` tells what a choice costs, and `plan`
// finds the one that costs least under a budget, exactly.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "planner/costs.hpp"
#include "planner/traffic.hpp"

namespace attacca::planner {

/// Sizes of graphs in tokens, ascending.
struct Sizes {
  std::vector<std::uint32_t> decode;
  std::vector<std::uint32_t> mixed;

  std::size_t count() const { return decode.size() + mixed.size(); }
};

/// How an engine chooses the graph of a step: the smallest of its kind that fits.
struct Rules {
  /// A decode step above the decode sizes runs in a graph of a mixed size.
  bool decodes_may_use_mixed = true;
  std::size_t most_per_list = 32;
};

/// What one graph of a kind takes. Graphs share their activations, so its size does not matter.
struct GraphCosts {
  double decode_mebibytes = 0;
  double mixed_mebibytes = 0;
  double decode_milliseconds = 0;
  double mixed_milliseconds = 0;

  double mebibytes(std::size_t decode, std::size_t mixed) const {
    return static_cast<double>(decode) * decode_mebibytes +
           static_cast<double>(mixed) * mixed_mebibytes;
  }
  double milliseconds(std::size_t decode, std::size_t mixed) const {
    return static_cast<double>(decode) * decode_milliseconds +
           static_cast<double>(mixed) * mixed_milliseconds;
  }
};

struct Budget {
  std::size_t graphs = 0;
  double mebibytes = std::numeric_limits<double>::infinity();
};

/// The largest steps that a scheduler can form, in tokens.
struct Limits {
  std::uint32_t decode = 0;
  std::uint32_t mixed = 0;
};

struct Figures {
  double steps = 0;
  double hits = 0;     // steps that have a graph
  double tokens = 0;   // of those steps
  double padding = 0;  // tokens of their graphs that they do not use
  double cost = 0;     // of all steps

  double hit_share() const { return steps > 0 ? hits / steps : 1; }
  double padding_share() const { return padding > 0 ? padding / (padding + tokens) : 0; }
  double cost_per_step() const { return steps > 0 ? cost / steps : 0; }
};

Figures judge(const Traffic& traffic, const Sizes& sizes, const Costs& costs, const Rules& rules);

/// The sizes that cost least; of equals, the fewest. A kind that has steps gets at least one size,
/// and each size is that of a step which runs in it: a graph that no step fills could at best keep
/// steps out of another.
/// `cover`: if not null, every step up to these limits gets a graph. Throws BadArgument if the
/// budget is too small for that.
Sizes plan(const Traffic& traffic, const Costs& costs, const Rules& rules, const GraphCosts& graphs,
           const Budget& budget, const Limits* cover = nullptr);

/// A sentence for each range of steps that the scheduler can form and that has no graph.
std::vector<std::string> gaps(const Sizes& sizes, const Rules& rules, const Limits& limits);

}  // namespace attacca::planner
