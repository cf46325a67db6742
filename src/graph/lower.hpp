// lower.hpp: a graph with its children inlined and its nodes in an order that respects edges and
// priorities. Both executors read this form. Children are inlined because CUDA's child nodes hold
// neither conditionals nor allocations, and because a node inside must stay updatable.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "graph/data.hpp"

namespace attacca::graph {

struct LoweredNode {
  NodeId id;
  std::span<const Edge> deps;  // of the same lowered scope
};

/// The root or the body of a conditional.
struct LoweredScope {
  std::vector<LoweredNode> nodes;
};

/// Points into the data it was made from.
struct Lowered {
  LoweredScope root;
  std::vector<LoweredScope> bodies;         // by ScopeId; empty unless the scope is a body
  std::deque<std::vector<Edge>> rewritten;  // dependencies that are not the data's own
};

/// The nodes of one scope, producers first. Among nodes that are ready, the one with the highest
/// priority goes first (unless `by_priority` is false), then the one added first. Shorter than the
/// scope's list when there is a cycle.
std::vector<NodeId> topological_order(const GraphData& data, ScopeId scope,
                                      bool by_priority = true);

/// REQUIRES: no cycles.
Lowered lower(const GraphData& data);

}  // namespace attacca::graph
