// roofline.cpp: places the kernels of a graph or a trace, gathers the advice, and tries what can be
// tried.
#include "roofline/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/without_numbers.hpp"
#include "graph/order.hpp"
#include "roofline/model.hpp"
#include "roofline/place.hpp"
#include "roofline/probes.hpp"

namespace attacca {

namespace roofline {

using namespace graph;

namespace {

// Nodes run side by side only if that saves more than this share of the whole.
constexpr double kWorthwhile = 0.01;

/// By more than noise.
bool are_early_nodes_cheaper(const Roofs& roofs) {
  return roofs.early_node_us < 0.9 * roofs.node_us;
}

void finish(Roofline& found) {
  std::stable_sort(found.kernels.begin(), found.kernels.end(), [](const auto& a, const auto& b) {
    return a.time_us * static_cast<double>(a.count) > b.time_us * static_cast<double>(b.count);
  });
  std::stable_sort(found.advice.begin(), found.advice.end(),
                   [](const auto& a, const auto& b) { return a.gain_us > b.gain_us; });
}

void add_kernel_advice(Roofline& found) {
  const Roofs& roofs = found.roofs;
  for (const PlacedKernel& kernel : found.kernels) {
    if (const auto advice = advice_for(kernel, roofs)) found.advice.push_back(*advice);
    if (kernel.is_in_graph || roofs.launch_us <= roofs.node_us) continue;
    const double gain = static_cast<double>(kernel.count) * (roofs.launch_us - roofs.node_us);
    found.advice.push_back({Tool::graph, kernel.name,
                            fmt::format("was launched {} times by itself; as a node of a graph it "
                                        "saves: {}",
                                        kernel.count, time_text(gain)),
                            gain});
  }
}

/// The mean of executions of one name, which may differ, as those of prefill and decode do.
class Group {
 public:
  void add(const PlacedKernel& kernel) {
    const auto weight = static_cast<double>(kernel.count);
    if (count_ == 0) sum_ = kernel;
    const double before = count_ / (count_ + weight), now = weight / (count_ + weight);
    const auto mean = [&](double& sum, double value) { sum = sum * before + value * now; };
    mean(sum_.time_us, kernel.time_us);
    mean(sum_.cost.flops, kernel.cost.flops);
    mean(sum_.cost.bytes, kernel.cost.bytes);
    mean(sum_.processors, kernel.processors);
    mean(sum_.written_share, kernel.written_share);
    mean(sum_.counted_bytes, kernel.counted_bytes);
    mean(sum_.counted_flops, kernel.counted_flops);
    sum_.is_in_graph &= kernel.is_in_graph;
    count_ += weight;
  }
  PlacedKernel placed(const std::string& name, const Roofs& roofs) const {
    PlacedKernel kernel = sum_;
    kernel.name = name;
    kernel.count = static_cast<std::size_t>(count_ + 0.5);
    place(kernel, roofs);
    return kernel;
  }

 private:
  PlacedKernel sum_;
  double count_ = 0;
};

/// For a kernel far below both roofs: the node that would gain most from running beside it. The
/// order of two nodes can go only if the edges that accesses ask for leave them unordered.
void add_neighbours(Roofline& found, const Graph& graph, const Model& model) {
  std::string why_not;
  const std::optional<Graph> derived = with_derived_edges(graph, why_not);
  if (!derived) return;
  const Order needed(data_of(*derived)), given(data_of(graph));
  const auto is_ordered = [](const Order& order, NodeId a, NodeId b) {
    return order.is_before(a, b) || order.is_before(b, a);
  };
  for (const ModelNode& node : model) {
    if (node.kernel.limit != Limit::neither) continue;
    const ModelNode* best = nullptr;
    double most = 0;
    for (const ModelNode& other : model) {
      if (other.id == node.id || is_ordered(needed, node.id, other.id) ||
          !is_ordered(given, node.id, other.id))
        continue;
      const double gain = node.kernel.time_us + other.kernel.time_us -
                          pair_us(node.kernel, other.kernel, found.roofs);
      if (gain > most) {
        most = gain;
        best = &other;
      }
    }
    if (best && most > kWorthwhile * found.total_us)
      found.advice.push_back({Tool::concurrent_branches, node.kernel.name,
                              fmt::format("no byte orders it and '{}'; side by side they save: {}",
                                          best->kernel.name, time_text(most)),
                              most});
  }
}

/// A graph without the edges that no byte asks for. What it costs to start nodes side by side
/// depends on their number, their edges and the host; so tiny kernels behind the same edges are
/// timed, and what the model says of those is corrected.
double derived_us(const Graph& derived, const std::vector<NodeTime>& times, const Roofs& roofs,
                  GraphClock& clock) {
  const Buffer<Quad> memory(derived.device(), data_of(derived).nodes.size() + 1);
  const Graph tiny = tiny_like(derived, memory.data());
  const std::vector<NodeTime> tiny_times(data_of(tiny).nodes.size(), {1, roofs.tiny_us});
  const double wrong = clock.graph(tiny) - graph_us(model_of(tiny, tiny_times, roofs), roofs);
  return std::max(0.0, graph_us(model_of(derived, times, roofs), roofs) + wrong);
}

/// What helps the graph as a whole.
void add_graph_advice(Roofline& found, const Graph& graph, const Model& model, GraphClock& clock) {
  const Roofs& roofs = found.roofs;
  std::size_t small = 0;
  for (const ModelNode& node : model) small += node.kernel.limit == Limit::launch;
  std::size_t edges = 0;
  with_edges(graph, EdgeKind::programmatic, edges);
  std::size_t programmatic = 0;
  for (const ModelNode& node : model)
    for (const ModelNode::Dep& dep : node.deps) programmatic += dep.kind == EdgeKind::programmatic;
  if (edges > programmatic && are_early_nodes_cheaper(roofs)) {
    const double gain =
        static_cast<double>(edges - programmatic) * (roofs.node_us - roofs.early_node_us);
    found.advice.push_back({Tool::programmatic_edges, "",
                            fmt::format("{} edges lead to kernels that wait themselves; as "
                                        "programmatic edges they save: {}",
                                        edges - programmatic, time_text(gain)),
                            gain});
  }
  const double step = step_us(model, roofs);
  if (small > 1 && step < roofs.node_us) {
    const double gain = static_cast<double>(small) * (roofs.node_us - step);
    found.advice.push_back({Tool::persistent_kernel, "",
                            fmt::format("{} kernels are launch-bound; in one persistent kernel a "
                                        "step replaces each node and saves: {}",
                                        small, time_text(gain)),
                            gain});
  }
  if (found.total_us < 2 * roofs.graph_us && roofs.device_launch_us < roofs.graph_us)
    found.advice.push_back(
        {Tool::device_launch, "",
         fmt::format("launching the graph is {:.0f} % of its time; a graph that relaunches itself "
                     "saves, per launch: {}",
                     100 * roofs.graph_us / found.total_us,
                     time_text(roofs.graph_us - roofs.device_launch_us)),
         roofs.graph_us - roofs.device_launch_us});
  std::string why_not;
  if (const auto derived = with_derived_edges(graph, why_not)) {
    std::vector<NodeTime> times(data_of(graph).nodes.size());
    for (const ModelNode& node : model)
      times[node.id] = {static_cast<double>(node.kernel.count), node.kernel.time_us};
    const double gain = graph_us(model, roofs) - derived_us(*derived, times, roofs, clock);
    if (gain > kWorthwhile * found.total_us)
      found.advice.push_back({Tool::concurrent_branches, "",
                              fmt::format("edges that no byte asks for keep nodes in order; "
                                          "without them the graph saves: {}",
                                          time_text(gain)),
                              gain});
  }
}

/// The times of nodes behind full edges: a kernel that starts early waits for its producer, and
/// that is not its own time.
std::vector<NodeTime> own_times(const Graph& graph, GraphClock& clock) {
  std::size_t changed = 0;
  return clock.nodes(with_edges(graph, EdgeKind::full, changed));
}

/// What the model says of another form of a graph, scaled so that it is right about this one.
double scaled(double measured, double model_before, double model_after) {
  return model_before > 0 ? measured * model_after / model_before : model_after;
}

Trial not_tried(Tool tool, const char* what, std::string why_not) {
  Trial trial{.tool = tool, .what = what};
  trial.why_not = std::move(why_not);
  return trial;
}

Trial try_graph(const Graph& graph, const Model& model, const Roofs& roofs, GraphClock& clock) {
  Trial trial{.tool = Tool::graph, .what = "a graph instead of a stream"};
  trial.before_us = clock.stream(graph);
  trial.predicted_us = graph_us(model, roofs);  // what a stream adds says nothing of the graph
  trial.measured_us = clock.graph(graph);
  return trial;
}

Trial try_programmatic(const Graph& graph, const std::vector<NodeTime>& times, const Roofs& roofs,
                       GraphClock& clock) {
  constexpr const char* kWhat = "programmatic edges instead of full ones";
  std::size_t edges = 0;
  const Graph full = with_edges(graph, EdgeKind::full, edges);
  if (edges == 0)
    return not_tried(Tool::programmatic_edges, kWhat,
                     "no edge leads from a kernel to one that waits for its producers itself");
  if (!are_early_nodes_cheaper(roofs))
    return not_tried(Tool::programmatic_edges, kWhat,
                     "a programmatic edge costs as much as a full one on this device");
  const Graph early = with_edges(graph, EdgeKind::programmatic, edges);
  if (const auto problems = early.problems(); !problems.empty())
    return not_tried(Tool::programmatic_edges, kWhat, problems.front().what());
  Trial trial{.tool = Tool::programmatic_edges, .what = kWhat};
  trial.before_us = clock.graph(full);
  trial.predicted_us = scaled(trial.before_us, graph_us(model_of(full, times, roofs), roofs),
                              graph_us(model_of(early, times, roofs), roofs));
  trial.measured_us = clock.graph(early);
  return trial;
}

Trial try_branches(const Graph& graph, const std::vector<NodeTime>& times, const Model& model,
                   const Roofs& roofs, GraphClock& clock) {
  constexpr const char* kWhat = "edges that accesses ask for, and no others";
  std::string why_not;
  const std::optional<Graph> derived = with_derived_edges(graph, why_not);
  if (!derived) return not_tried(Tool::concurrent_branches, kWhat, why_not);
  const double now = graph_us(model, roofs);
  const double then = derived_us(*derived, times, roofs, clock);
  if (then > (1 - kWorthwhile) * now)
    return not_tried(
        Tool::concurrent_branches, kWhat,
        fmt::format("{} instead of {} are predicted", time_text(then), time_text(now)));
  if (const auto problems = derived->problems(); !problems.empty())
    return not_tried(Tool::concurrent_branches, kWhat, problems.front().what());
  Trial trial{.tool = Tool::concurrent_branches, .what = kWhat};
  trial.before_us = clock.graph(graph);
  trial.predicted_us = scaled(trial.before_us, now, then);
  trial.measured_us = clock.graph(*derived);
  return trial;
}

Trial try_persistent(const Graph& graph, const Model& model, const Roofs& roofs, GraphClock& clock,
                     const PersistentProgram* program) {
  constexpr const char* kWhat = "a persistent kernel instead of nodes";
  if (!program)
    return not_tried(Tool::persistent_kernel, kWhat,
                     "no program of its kernels was offered; see make_persistent");
  Trial trial{.tool = Tool::persistent_kernel, .what = kWhat};
  trial.predicted_us = persistent_us(model, roofs);
  try {
    trial.measured_us = clock.persistent(graph, *program);
  } catch (const Error& error) {
    return not_tried(Tool::persistent_kernel, kWhat, error.what());
  }
  trial.before_us = clock.graph(graph);
  return trial;
}

}  // namespace

Roofline place_graph(const Graph& graph, const Roofs& roofs, GraphClock& clock, bool counts) {
  const GraphData& data = data_of(graph);
  Roofline found{.roofs = roofs, .subject = graph.name()};
  const std::vector<NodeTime> times = own_times(graph, clock);
  found.timed_by = clock.source();
  found.total_us = clock.graph(graph);
  std::vector<double> bytes, flops;
  if (counts) {
    bytes = clock.counted(instruments::Counter::memory_bytes, graph, found.bytes_not_counted);
    flops = clock.counted(instruments::Counter::flops, graph, found.flops_not_counted);
  }
  for (NodeId id = 0; id < data.nodes.size(); ++id)
    if (id < times.size() && times[id].count > 0)
      if (const auto kernel = kernel_of(data, id, times[id].time_us, times[id].count, roofs)) {
        found.kernels.push_back(*kernel);
        if (id < bytes.size()) found.kernels.back().counted_bytes = bytes[id];
        if (id < flops.size()) found.kernels.back().counted_flops = flops[id];
      }
  add_kernel_advice(found);
  if (can_be_streamed(graph)) {
    const Model model = model_of(graph, times, roofs);
    add_graph_advice(found, graph, model, clock);
    add_neighbours(found, graph, model);
  }
  finish(found);
  return found;
}

std::vector<Trial> try_all(const Graph& graph, const Roofline& found, GraphClock& clock,
                           const PersistentProgram* program) {
  if (!can_be_streamed(graph))
    return {not_tried(Tool::graph, "other forms of the graph",
                      "it has nodes that are no kernels, copies or fills")};
  const std::vector<NodeTime> times = own_times(graph, clock);
  const Model model = model_of(graph, times, found.roofs);
  return {try_graph(graph, model, found.roofs, clock),
          try_programmatic(graph, times, found.roofs, clock),
          try_branches(graph, times, model, found.roofs, clock),
          try_persistent(graph, model, found.roofs, clock, program)};
}

}  // namespace roofline

Roofline roofline_of(const Graph& graph, const Roofs& roofs, bool counts) {
  return roofline::place_graph(graph, roofs, *roofline::clock_of(graph.device()), counts);
}

std::vector<Trial> try_advice(const Graph& graph, const Roofline& found,
                              const PersistentProgram* program) {
  return roofline::try_all(graph, found, *roofline::clock_of(graph.device()), program);
}

Roofline roofline_of(const Trace& trace, const Roofs& roofs, const std::string& name) {
  std::map<std::string, roofline::Group> groups;
  for (const TraceSlice& slice : trace.slices) {
    if (slice.cost.flops <= 0 && slice.cost.bytes <= 0) continue;
    groups[slice.name].add({.name = slice.name,
                            .cost = slice.cost,
                            .time_us = 1e-3 * static_cast<double>(slice.end_ns - slice.begin_ns),
                            .is_in_graph = !slice.graph.empty()});
  }
  Roofline found{.roofs = roofs, .subject = name, .timed_by = "the trace"};
  for (const auto& [group_name, group] : groups) {
    found.kernels.push_back(group.placed(group_name, roofs));
    const PlacedKernel& kernel = found.kernels.back();
    found.total_us += kernel.time_us * static_cast<double>(kernel.count);
  }
  roofline::add_kernel_advice(found);
  roofline::finish(found);
  return found;
}

Roofline merge_numbers(const Roofline& found) {
  Roofline merged = found;
  std::map<std::string, roofline::Group> groups;
  for (const PlacedKernel& kernel : found.kernels)
    groups[core::without_numbers(kernel.name)].add(kernel);
  merged.kernels.clear();
  for (const auto& [name, group] : groups)
    merged.kernels.push_back(group.placed(name, found.roofs));
  // Advice for kernels by themselves is found anew; that for the whole and for pairs stays.
  std::erase_if(merged.advice, [](const RoofAdvice& advice) {
    return !advice.about.empty() && advice.tool != Tool::concurrent_branches;
  });
  roofline::add_kernel_advice(merged);
  roofline::finish(merged);
  return merged;
}

}  // namespace attacca
