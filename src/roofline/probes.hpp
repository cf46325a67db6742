// probes.hpp: a graph of kernels built to sit at known places under the roofs, to check that they
// land there: a copy and a read at the roof of memory, multiply-adds at that of fp32, and tiny
// kernels whose only cost is their launch.
#pragma once

#include <attacca/memory.hpp>
#include <attacca/roofline.hpp>
#include <string>
#include <vector>

#include "roofline/probe_kernels.hpp"

namespace attacca::roofline {

/// Where a probe must land.
struct Expected {
  std::string kernel;
  Limit limit;
  Tool tool;     // of the advice
  double share;  // of the roof; 0: any
};

/// Kernels one behind the other, each of which copies the first quad to the next place. REQUIRES:
/// `memory` has room for one quad more than there are nodes, and outlives the graph.
Graph tiny_chain(const Device& device, Quad* memory, unsigned nodes,
                 EdgeKind edges = EdgeKind::full);
/// The same kernels behind the edges of another graph, children inlined: what it costs to start its
/// nodes. REQUIRES: as tiny_chain.
Graph tiny_like(const Graph& graph, Quad* memory);

class Probes {
 public:
  explicit Probes(const Device& device);
  // REQUIRES: this outlives the graphs and their execs.
  Graph graph() const;
  /// Tiny kernels one behind the other, for trials: starting them is all that takes time.
  Graph chain() const;
  /// Kernels of one block one behind the other, though no byte orders them: side by side they take
  /// as long as one, where there are processors enough.
  Graph lonely() const;

 private:
  Device device_;
  Buffer<Quad> memory_;
  Buffer<float> out_;
  Buffer<std::uint32_t> seen_;
};

std::vector<Expected> expected_places();

/// How far a share may be from what is expected.
inline constexpr double kProbeTolerance = 0.05;
/// How far a prediction may be from what was measured.
inline constexpr double kTrialTolerance = 0.25;
/// A sentence for each trial that was predicted worse.
std::vector<std::string> mispredicted(const std::vector<Trial>& trials);

/// A sentence for each probe that landed elsewhere; empty: all are where they should be.
std::vector<std::string> misplaced(const Roofline& found, const std::vector<Expected>& expected);

}  // namespace attacca::roofline
