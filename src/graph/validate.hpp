// validate.hpp: the rules of a graph, checked before any driver sees it. Each problem names the
// node and says what to do instead.
#pragma once

#include <string>
#include <vector>

#include "graph/data.hpp"
#include "graph/order.hpp"

namespace attacca::graph {

/// All rules that a graph breaks when it is instantiated for the host, or for device code, to
/// launch. Where there is a cycle, there is no order, and rules about it are not checked.
std::vector<GraphError> find_problems(const GraphData& data, Target target);
/// Throws the first problem.
void validate(const GraphData& data, Target target);

// The parts of find_problems share this; each part has a file.

struct Validation {
  Validation(const GraphData& graph, Target by) : data(graph), target(by), order(graph) {}

  void add(Rule rule, const std::string& node, const std::string& message) {
    problems.emplace_back(rule, node, message);
  }
  /// "in the body of while 'decode'", for the nearest body around a scope; empty if there is none.
  std::string body_around(ScopeId scope) const;

  const GraphData& data;
  Target target;
  Order order;
  std::vector<GraphError> problems;
};

/// Conditions, allocations and device-updatable nodes: whether they are used as they can be, and,
/// if the graph has no cycle (`is_ordered`), whether each use comes in time.
void check_symbols(Validation& validation, bool is_ordered);
/// Nodes that may run side by side and must not: kernels whose blocks wait for each other, and
/// conflicting accesses. REQUIRES: no cycle.
void check_overlaps(Validation& validation);

}  // namespace attacca::graph
