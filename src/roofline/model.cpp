// model.cpp: plays a graph on paper, event by event, and makes copies of it with other edges.
#include "roofline/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>

#include "graph/conflicts.hpp"
#include "graph/executor.hpp"
#include "graph/lower.hpp"
#include "roofline/place.hpp"

namespace attacca::roofline {

using namespace graph;

namespace {

/// The share of the processors that a kernel's blocks can use. The host (backend/host/run.cpp)
/// splits a kernel of fewer than so many threads only if its blocks are worth a thread each.
double processors_of(const KernelPart& kernel, const Device& device) {
  constexpr double kSplitThreads = 8192;
  const double processors = device.processors();
  const auto blocks = static_cast<double>(kernel.grid.blocks.count());
  const bool is_split = device.is_cuda() || kernel.info->traits.is_blockwise ||
                        kernel.info->traits.is_persistent ||
                        blocks * static_cast<double>(kernel.grid.threads.count()) >= kSplitThreads;
  return std::min(1.0, (is_split ? blocks : 1) / processors);
}

double written_share(const GraphData& data, NodeId id) {
  std::vector<Touch> touches;
  add_touches(data, id, touches);
  double all = 0, written = 0;
  for (const Touch& touch : touches) {
    const auto bytes = static_cast<double>(touch.end - touch.first);
    all += bytes;
    written += touch.is_write ? bytes : 0;
  }
  return all > 0 ? written / all : 0;
}

/// What lies between two kernels of a graph. Less than nothing where a kernel starts behind a
/// programmatic edge while its producer still runs, so that a part of its own time is hidden.
double gap_us(const Roofs& roofs, EdgeKind kind) {
  return (kind == EdgeKind::full ? roofs.node_us : roofs.early_node_us) - roofs.tiny_us;
}

/// What a node uses while it runs by itself, each as a share of all there is.
struct Shares {
  double processors = 0, memory = 0, arithmetic = 0;

  void add(const Shares& other, double sign) {
    processors += sign * other.processors;
    memory += sign * other.memory;
    arithmetic += sign * other.arithmetic;
  }
  /// How many times as long everything takes that runs at the same time.
  double slowdown() const { return std::max({1.0, processors, memory, arithmetic}); }
};

Shares shares_of(const PlacedKernel& kernel, const Roofs& roofs) {
  const double time = std::max(kernel.time_us, 1e-9);
  return {kernel.processors, memory_us(kernel, roofs) / time, compute_us(kernel, roofs) / time};
}

/// Runs a model from event to event: a node becomes ready, or ends.
class Play {
 public:
  Play(const Model& model, const Roofs& roofs) : model_(model), roofs_(roofs) {
    left_.resize(model.size());
    consumers_.resize(model.size());
    for (std::size_t at = 0; at < model.size(); ++at) {
      left_[at] = model[at].deps.size();
      for (const ModelNode::Dep& dep : model[at].deps) consumers_[dep.from].push_back(at);
    }
    std::vector<std::size_t> roots;
    for (std::size_t at = 0; at < model.size(); ++at)
      if (model[at].deps.empty()) roots.push_back(at);
    wait(roots, roofs.root_us);
  }

  double length() {
    while (!waiting_.empty() || !running_.empty()) {
      const double slowdown = used_.slowdown();
      const auto next = std::min_element(
          running_.begin(), running_.end(),
          [](const Running& a, const Running& b) { return a.time_left < b.time_left; });
      const double ends = running_.empty() ? kNever : now_ + next->time_left * slowdown;
      const double starts = waiting_.empty() ? kNever : std::max(now_, waiting_.top().first);
      const double passed = (std::min(ends, starts) - now_) / slowdown;
      for (Running& each : running_) each.time_left -= passed;
      now_ = std::min(ends, starts);
      if (starts <= ends)
        start();
      else
        end(next);
    }
    return now_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Running {
    std::size_t node;
    double time_left;  // if nothing else ran
  };
  using Ready = std::pair<double, std::size_t>;  // when, which

  double gap_before(std::size_t node) const {
    EdgeKind kind = model_[node].deps.empty() ? EdgeKind::full : EdgeKind::programmatic;
    for (const ModelNode::Dep& dep : model_[node].deps)
      if (dep.kind == EdgeKind::full) kind = EdgeKind::full;
    return gap_us(roofs_, kind);
  }
  /// Nodes that become ready at the same moment are started one after another.
  void wait(const std::vector<std::size_t>& nodes, const ByWidth& branch_us) {
    double before = 0;
    for (const std::size_t node : nodes) {
      waiting_.push({now_ + std::max(0.0, gap_before(node)) + before, node});
      before += at_width(branch_us, nodes.size());
    }
  }
  void start() {
    const std::size_t node = waiting_.top().second;
    waiting_.pop();
    const double hidden = std::min(0.0, gap_before(node));
    running_.push_back({node, std::max(0.0, model_[node].kernel.time_us + hidden)});
    used_.add(shares_of(model_[node].kernel, roofs_), 1);
  }
  void end(std::vector<Running>::iterator ended) {
    const std::size_t node = ended->node;
    running_.erase(ended);
    used_.add(shares_of(model_[node].kernel, roofs_), -1);
    std::vector<std::size_t> ready;
    for (const std::size_t consumer : consumers_[node])
      if (--left_[consumer] == 0) ready.push_back(consumer);
    wait(ready, roofs_.branch_us);
  }

  const Model& model_;
  const Roofs& roofs_;
  std::vector<std::size_t> left_;  // producers that have not ended
  std::vector<std::vector<std::size_t>> consumers_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> waiting_;
  std::vector<Running> running_;
  Shares used_;
  double now_ = 0;
};

bool can_be_programmatic(const GraphData& data, const NodeData& node, const Edge& edge) {
  const auto* kernel = std::get_if<KernelPart>(&node.part);
  return kernel && kernel->info->traits.waits &&
         std::holds_alternative<KernelPart>(data.nodes[edge.from].part);
}

}  // namespace

std::optional<PlacedKernel> kernel_of(const GraphData& data, NodeId id, double time_us,
                                      double count, const Roofs& roofs) {
  const NodeData& node = data.nodes[id];
  PlacedKernel placed;
  placed.name = node.name;
  placed.count = static_cast<std::size_t>(std::max(1.0, count + 0.5));
  placed.time_us = time_us;
  if (const auto* kernel = std::get_if<KernelPart>(&node.part)) {
    placed.cost = kernel->info->cost(kernel->args.data());
    placed.processors = processors_of(*kernel, data.device);
  } else if (const auto* copy = std::get_if<CopyPart>(&node.part)) {
    placed.cost.bytes = 2.0 * static_cast<double>(copy->bytes * copy->rows);
  } else if (const auto* fill = std::get_if<FillPart>(&node.part)) {
    placed.cost.bytes = static_cast<double>(fill->bytes);
  } else {
    return {};
  }
  placed.written_share = written_share(data, id);
  place(placed, roofs);
  return placed;
}

Model model_of(const Graph& graph, const std::vector<NodeTime>& times, const Roofs& roofs) {
  const GraphData& data = data_of(graph);
  const Lowered lowered = lower(data);
  Model model;
  std::map<NodeId, std::size_t> places;
  for (const LoweredNode& node : lowered.root.nodes) {
    const NodeTime time = node.id < times.size() ? times[node.id] : NodeTime{};
    ModelNode& next = model.emplace_back();
    next.id = node.id;
    if (const auto kernel = kernel_of(data, node.id, time.time_us, time.count, roofs))
      next.kernel = *kernel;
    if (const auto* part = std::get_if<KernelPart>(&data.nodes[node.id].part))
      next.is_large = part->grid.blocks.count() > 1;
    for (const Edge& edge : node.deps)
      if (const auto found = places.find(edge.from); found != places.end())
        next.deps.push_back({found->second, edge.kind});
    places.emplace(node.id, model.size() - 1);
  }
  return model;
}

double graph_us(const Model& model, const Roofs& roofs) {
  return roofs.graph_us + Play(model, roofs).length();
}

double persistent_us(const Model& model, const Roofs& roofs) {
  double sum = roofs.persistent_us;
  for (const ModelNode& node : model)
    sum += std::max(0.0, node.kernel.time_us - roofs.tiny_us) + step_us(model, roofs);
  return sum;
}

double step_us(const Model& model, const Roofs& roofs) {
  const bool is_large =
      std::any_of(model.begin(), model.end(), [](const ModelNode& node) { return node.is_large; });
  return roofs.step_us + (is_large ? roofs.barrier_us : 0);
}

double pair_us(const PlacedKernel& a, const PlacedKernel& b, const Roofs& roofs) {
  Shares both = shares_of(a, roofs);
  both.add(shares_of(b, roofs), 1);
  const double together = std::min(a.time_us, b.time_us);
  return at_width(roofs.branch_us, 2) + together * both.slowdown() +
         std::abs(a.time_us - b.time_us);
}

std::optional<Graph> with_derived_edges(const Graph& graph, std::string& why_not) {
  Graph derived = graph;
  GraphData& data = data_of(derived);
  for (const NodeId id : data.scopes[kRootScope].nodes) {
    std::vector<Touch> touches;
    add_touches(data, id, touches);
    if (!touches.empty()) continue;
    why_not = fmt::format("'{}' declares no accesses, so its edges must stay", data.nodes[id].name);
    return {};
  }
  for (const NodeId id : data.scopes[kRootScope].nodes) data.nodes[id].deps = {};
  derived.derive_edges();
  return derived;
}

Graph with_edges(const Graph& graph, EdgeKind kind, std::size_t& changed) {
  Graph copy = graph;
  GraphData& data = data_of(copy);
  changed = 0;
  for (NodeData& node : data.nodes)
    for (Edge& edge : node.deps)
      if (can_be_programmatic(data, node, edge)) {
        edge.kind = kind;
        ++changed;
      }
  return copy;
}

}  // namespace attacca::roofline
