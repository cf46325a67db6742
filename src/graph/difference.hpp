// difference.hpp: what separates two graphs: a change of structure, which needs a new instance, or
// parameters, which an instance takes over in place. The rules are the CUDA driver's.
#pragma once

#include <optional>
#include <vector>

#include "graph/data.hpp"
#include "graph/executor.hpp"

namespace attacca::graph {

/// The first reason why `from` cannot become `to` by setting parameters: nodes, kinds, edges,
/// kernels, attributes or conditionals that differ.
std::optional<Refusal> structural_difference(const GraphData& from, const GraphData& to);

/// Nodes whose parameters differ, and nodes switched on or off.
struct ParameterDifference {
  std::vector<NodeId> parameters;
  std::vector<NodeId> switches;
};
/// REQUIRES: no structural difference.
ParameterDifference parameter_difference(const GraphData& from, const GraphData& to);

}  // namespace attacca::graph
