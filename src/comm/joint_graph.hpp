// joint_graph.hpp: the graphs of ranks that share a device, as one graph. An exchange becomes one
// kernel, behind what comes before it on all ranks and in front of what comes after it. A wait for
// a signal becomes an edge from the put that sets it.
#pragma once

#include <span>

#include "comm/group.hpp"
#include "graph/data.hpp"

namespace attacca::comm {

/// An exchange in a rank's graph.
struct JointNode {
  NodeId id;
  ExchangePtr exchange;
};

/// A rank's graph, with its exchanges in the order in which it runs them.
struct JointPart {
  const graph::GraphData* data;
  std::vector<JointNode> collectives;
  std::vector<JointNode> puts;  // those with signals
  std::vector<JointNode> waits;
};

/// Throws RanksBroken if the ranks have other collectives or have them in another order, if nothing
/// in the graphs sets a signal that one waits for, or if ranks wait for each other. `ranks`: how
/// messages number the ranks.
graph::GraphData join(std::span<const JointPart* const> parts, const std::vector<int>& ranks);

}  // namespace attacca::comm
