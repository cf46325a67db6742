// model.hpp: predicts how long a graph takes from the times of its nodes and the costs of starting
// work. Nodes side by side share processors, memory and arithmetic evenly.
#pragma once

#include <attacca/roofline.hpp>
#include <cstddef>
#include <optional>
#include <vector>

#include "graph/data.hpp"
#include "roofline/graph_clock.hpp"

namespace attacca::roofline {

/// A node of the root, producers first.
struct ModelNode {
  NodeId id = 0;
  PlacedKernel kernel;    // of a copy or fill, its bytes
  bool is_large = false;  // it has many blocks
  struct Dep {
    std::size_t from;  // its place in the list
    EdgeKind kind;
  };
  std::vector<Dep> deps;
};
using Model = std::vector<ModelNode>;

/// Nodes with their times, placed. `times` is by NodeId. REQUIRES: `can_be_streamed`.
Model model_of(const Graph& graph, const std::vector<NodeTime>& times, const Roofs& roofs);

/// The kernel of a node, or a copy or fill; none for other nodes.
std::optional<PlacedKernel> kernel_of(const graph::GraphData& data, NodeId id, double time_us,
                                      double count, const Roofs& roofs);

/// Microseconds of a launch of the graph, when one follows another.
double graph_us(const Model& model, const Roofs& roofs);
/// The same as one persistent kernel, which runs the nodes one after another.
double persistent_us(const Model& model, const Roofs& roofs);
/// Microseconds of a step of it without work. If one node has many blocks, all blocks wait for each
/// other behind every node.
double step_us(const Model& model, const Roofs& roofs);
/// Microseconds of two nodes side by side.
double pair_us(const PlacedKernel& a, const PlacedKernel& b, const Roofs& roofs);

/// A copy of the graph whose edges are those that declared accesses ask for; none where a node
/// declares none, and `why_not` says which.
std::optional<Graph> with_derived_edges(const Graph& graph, std::string& why_not);
/// A copy in which all edges that can be programmatic are of this kind, and their number.
Graph with_edges(const Graph& graph, EdgeKind kind, std::size_t& changed);

}  // namespace attacca::roofline
