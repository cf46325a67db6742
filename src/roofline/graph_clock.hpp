// graph_clock.hpp: how long the nodes of a graph take, and the whole of it in a graph and on a
// stream. The tests have a clock of their own, a machine on paper.
#pragma once

#include <attacca/graph.hpp>
#include <attacca/persistent.hpp>
#include <memory>
#include <string>
#include <vector>

#include "instruments/counters.hpp"

namespace attacca::roofline {

/// What a node did in one launch.
struct NodeTime {
  double count = 0;    // executions; 0: it did not run, or was not seen
  double time_us = 0;  // of one
};

class GraphClock {
 public:
  virtual ~GraphClock() = default;
  /// By NodeId.
  virtual std::vector<NodeTime> nodes(const Graph& graph) = 0;
  /// Microseconds of a launch, when one follows another.
  virtual double graph(const Graph& graph) = 0;
  /// The same of its nodes enqueued one by one. REQUIRES: `can_be_streamed`.
  virtual double stream(const Graph& graph) = 0;
  /// The same as one persistent kernel. REQUIRES: `can_be_streamed`. Throws an Error that says why
  /// that cannot be.
  virtual double persistent(const Graph& graph, const PersistentProgram& program) = 0;
  /// What each node counted, by NodeId, negative for those that were not counted; empty, with the
  /// reason, where there is no such counter.
  virtual std::vector<double> counted(instruments::Counter, const Graph&, std::string& why_not) {
    why_not = "this device has no counters that can be read";
    return {};
  }
  /// Where the times of nodes come from.
  virtual std::string source() const = 0;
};

/// Runs graphs on the device and looks at its clock.
std::unique_ptr<GraphClock> clock_of(const Device& device);

/// Whether the nodes can be enqueued one by one: kernels, copies and fills only.
bool can_be_streamed(const Graph& graph);

}  // namespace attacca::roofline
