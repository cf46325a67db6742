// paper_machine.hpp: a machine on paper, for tests of the roofline that no real clock may judge. It
// knows its roofs exactly and plays graphs and streams event by event: nodes start when their
// producers have ended and share processors, memory and arithmetic while they run side by side.
#pragma once

#include <algorithm>
#include <attacca/roofline.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/data.hpp"
#include "graph/lower.hpp"
#include "roofline/graph_clock.hpp"

namespace attacca::test {

inline Roofs paper_roofs() {
  Roofs roofs;
  roofs.device = "paper";
  roofs.read = 1e12;
  roofs.copy = 0.8e12;
  roofs.cache = 4e12;
  roofs.flops = {10e12, 100e12, 200e12};
  roofs.launch_us = 2.5;
  roofs.graph_us = 4;
  roofs.node_us = 1.3;
  roofs.early_node_us = 0.8;
  roofs.branch_us = {0.6, 0.9, 1.2, 1.5};
  roofs.root_us = {0.3, 0.9, 1.8, 2.4};
  roofs.persistent_us = 6;
  roofs.step_us = 0.2;
  roofs.barrier_us = 0.7;
  roofs.device_launch_us = 1.5;
  roofs.tiny_us = 0.6;
  return roofs;
}

class PaperMachine final : public roofline::GraphClock {
 public:
  /// How a kernel of a name behaves: its time alone, and the share of each resource it then uses.
  struct Work {
    double time_us = 0;
    double processors = 1;
    double memory = 0;
    double arithmetic = 0;
  };
  using WorkOf = std::function<Work(const graph::NodeData&)>;

  PaperMachine(const Roofs& roofs, WorkOf work_of) : roofs_(roofs), work_of_(std::move(work_of)) {}

  std::vector<roofline::NodeTime> nodes(const Graph& graph) override {
    const graph::GraphData& data = graph::data_of(graph);
    std::vector<roofline::NodeTime> times;
    for (const graph::NodeData& node : data.nodes) {
      times.push_back({1, work_of_(node).time_us});
      for (const graph::Edge& edge : node.deps)
        if (edge.kind == EdgeKind::programmatic)  // it starts early, and waits
          times.back().time_us += work_of_(data.nodes[edge.from]).time_us;
    }
    return times;
  }

  /// A quarter more bytes and a tenth fewer FLOPs than kernels declare.
  std::vector<double> counted(instruments::Counter counter, const Graph& graph,
                              std::string& why_not) override {
    if (refuses_counters) {
      why_not = "run as root";
      return {};
    }
    std::vector<double> counts;
    for (const graph::NodeData& node : graph::data_of(graph).nodes) {
      const auto* kernel = std::get_if<graph::KernelPart>(&node.part);
      const Cost cost = kernel ? kernel->info->cost(kernel->args.data()) : Cost{};
      const bool is_flops = counter == instruments::Counter::flops;
      counts.push_back(!kernel ? -1 : is_flops ? 0.9 * cost.flops : 1.25 * cost.bytes);
    }
    return counts;
  }
  bool refuses_counters = false;

  /// Launches follow each other; the host needs graph_us for each, and the device goes on meanwhile
  /// only with the launch before, so both are paid here.
  double graph(const Graph& graph) override {
    const graph::GraphData& data = graph::data_of(graph);
    const graph::Lowered lowered = graph::lower(data);
    return roofs_.graph_us + play(data, lowered.root);
  }

  /// The host enqueues a kernel every launch_us; the device runs them in order.
  double stream(const Graph& graph) override {
    const graph::GraphData& data = graph::data_of(graph);
    const graph::Lowered lowered = graph::lower(data);
    double enqueued = 0, ended = 0;
    for (const graph::LoweredNode& node : lowered.root.nodes) {
      enqueued += roofs_.launch_us;
      ended =
          std::max(enqueued, ended + gap(EdgeKind::full)) + work_of_(data.nodes[node.id]).time_us;
    }
    return ended;
  }

  /// One launch, and a step for each node. All nodes have one block.
  double persistent(const Graph& graph, const PersistentProgram&) override {
    double sum = roofs_.persistent_us;
    for (const graph::NodeData& node : graph::data_of(graph).nodes)
      sum += work_of_(node).time_us - roofs_.tiny_us + roofs_.step_us;
    return sum;
  }

  std::string source() const override { return "paper"; }

 private:
  struct Running {
    NodeId id;
    Work work;
    double left_us;  // of its time alone
  };

  /// Negative where a kernel starts before its producer ends.
  double gap(EdgeKind kind) const {
    return (kind == EdgeKind::full ? roofs_.node_us : roofs_.early_node_us) - roofs_.tiny_us;
  }
  /// A full edge makes a node wait for the ends of all.
  static EdgeKind kind_of(const graph::LoweredNode& node) {
    EdgeKind kind = node.deps.empty() ? EdgeKind::full : EdgeKind::programmatic;
    for (const graph::Edge& edge : node.deps)
      if (edge.kind == EdgeKind::full) kind = EdgeKind::full;
    return kind;
  }

  /// The producer that ends last; kNone where there is none.
  static NodeId last_producer(const graph::LoweredNode& node,
                              const std::map<NodeId, double>& ends) {
    NodeId last = graph::kNone;
    for (const graph::Edge& edge : node.deps)
      if (last == graph::kNone || ends.at(edge.from) > ends.at(last)) last = edge.from;
    return last;
  }
  static bool is_known(const graph::LoweredNode& node, const std::map<NodeId, double>& ends) {
    return std::all_of(node.deps.begin(), node.deps.end(),
                       [&](const graph::Edge& edge) { return ends.contains(edge.from); });
  }
  /// The moment at which a node can start, once its producers have ended. Of several nodes that the
  /// end of one releases, each further one is started later, by the cost of a fork so wide.
  double ready_at(const graph::LoweredNode& node, const graph::LoweredScope& scope,
                  const std::map<NodeId, double>& ends) const {
    const NodeId last = last_producer(node, ends);
    unsigned before = 0, width = 0;
    for (const graph::LoweredNode& other : scope.nodes) {
      if (other.id == node.id) before = width;
      width += is_known(other, ends) && last_producer(other, ends) == last;
    }
    const double branch = at_width(last == graph::kNone ? roofs_.root_us : roofs_.branch_us, width);
    return (last == graph::kNone ? 0 : ends.at(last)) + std::max(0.0, gap(kind_of(node))) +
           before * branch;
  }

  double play(const graph::GraphData& data, const graph::LoweredScope& scope) const {
    std::map<NodeId, double> ends;
    std::vector<const graph::LoweredNode*> waiting;
    for (const graph::LoweredNode& node : scope.nodes) waiting.push_back(&node);
    std::vector<Running> running;
    double now = 0;
    while (!waiting.empty() || !running.empty()) {
      double next_start = 1e300;
      for (std::size_t at = 0; at < waiting.size();) {
        const graph::LoweredNode& node = *waiting[at];
        const double start = is_known(node, ends) ? ready_at(node, scope, ends) : 1e300;
        if (start <= now + 1e-9) {
          const Work work = work_of_(data.nodes[node.id]);
          running.push_back({node.id, work, work.time_us + std::min(0.0, gap(kind_of(node)))});
          waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(at));
        } else {
          next_start = std::min(next_start, start);
          ++at;
        }
      }
      // Everything that runs slows down alike when a resource is asked for more than it has.
      Work asked{0, 0, 0, 0};
      for (const Running& each : running) {
        asked.processors += each.work.processors;
        asked.memory += each.work.memory;
        asked.arithmetic += each.work.arithmetic;
      }
      const double speed = 1 / std::max({1.0, asked.processors, asked.memory, asked.arithmetic});
      double step = next_start - now;
      for (const Running& each : running) step = std::min(step, each.left_us / speed);
      now += step;
      for (std::size_t at = 0; at < running.size();) {
        running[at].left_us -= step * speed;
        if (running[at].left_us <= 1e-9) {
          ends[running[at].id] = now;
          running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
        } else {
          ++at;
        }
      }
    }
    return now;
  }

  Roofs roofs_;
  WorkOf work_of_;
};

}  // namespace attacca::test
