// order.hpp: tells whether one node of a graph always ends before another starts. Questions about
// one node and many others cost one pass over the nodes between them, not a walk each.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/data.hpp"

namespace attacca::graph {

/// The order of the nodes in each scope. Reads the data it was made from, which must not change.
class Order {
 public:
  explicit Order(const GraphData& data);

  /// The nodes of a scope, producers first. Shorter than the scope's list where there is a cycle.
  const std::vector<NodeId>& of(ScopeId scope) const { return order_[scope]; }

  // The functions below REQUIRE that there is no cycle.

  /// Its index in its scope's order.
  std::uint32_t place(NodeId id) const { return place_[id]; }
  bool is_inside(ScopeId scope, ScopeId outer) const;
  /// The innermost scope that both are in.
  ScopeId common_scope(NodeId a, NodeId b) const;
  /// The node of `scope` that is `id` or encloses it.
  NodeId lifted(NodeId id, ScopeId scope) const;
  /// Whether `first` always ends before `second` starts. False for a node and its own inside.
  bool is_before(NodeId first, NodeId second) const;
  /// Sorts producers first and keeps the nodes inside one node together. If each node is then
  /// before the next, it is before all that follow.
  void sort(std::vector<NodeId>& nodes) const;

 private:
  friend class Sweep;
  void find_chains() const;
  void number(ScopeId scope, std::uint32_t& next) const;

  const GraphData& data_;
  std::vector<std::vector<NodeId>> order_;  // by scope
  std::vector<std::uint32_t> place_;        // by node: its index in its scope's order
  // By node, and made when first asked for:
  mutable std::vector<std::uint32_t> chain_start_;  // place where an unbroken run of full edges
                                                    // that leads to it starts
  mutable std::vector<std::uint32_t> number_;       // of the whole graph, insides behind their node
};

/// The nodes that end before a given one starts, or that start after it has ended.
class Sweep {
 public:
  enum class Of : std::uint8_t { earlier, later };
  Sweep(const Order& order, NodeId node, Of of) : order_(order), node_(node), of_(of) {}
  bool contains(NodeId other);

 private:
  /// How a node of the same scope is ordered against ours. Behind a programmatic edge a node starts
  /// once its producer has started, and ends after the producer has ended. So a node can be ordered
  /// against another's end and not against its start.
  enum class Reach : std::uint8_t { none, weak, full };
  struct Pass {
    std::vector<Reach> reach;  // by place
    std::uint32_t next;        // next place to look at
  };
  Pass& pass_from(NodeId from);
  bool look_back(NodeId from, NodeId to);
  bool look_ahead(NodeId from, NodeId to);

  const Order& order_;
  NodeId node_;
  Of of_;
  std::unordered_map<NodeId, Pass> passes_;  // by the node that encloses ours, or ours
};

}  // namespace attacca::graph
