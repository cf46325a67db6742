// joint_graph.hpp: the graphs of ranks that share a device, as one graph. An exchange becomes one
// kernel, behind what comes before it on all ranks and in front of what comes after it.
#pragma once

#include <span>

#include "comm/exchange.hpp"
#include "graph/data.hpp"

namespace attacca::comm {

/// An exchange in a rank's graph.
struct JointNode {
  NodeId id;
  const ExchangeData* exchange;
};

/// A rank's graph, with its exchanges in the order in which it runs them.
struct JointPart {
  const graph::GraphData* data;
  std::vector<JointNode> nodes;
};

/// Throws RanksBroken if the ranks have other exchanges, or have them in another order. `ranks`:
/// how messages number the ranks.
graph::GraphData join(std::span<const JointPart* const> parts, const std::vector<int>& ranks);

}  // namespace attacca::comm
