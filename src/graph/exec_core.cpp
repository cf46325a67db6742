// exec_core.cpp: the update contract. Change the owned graph, ask the instance to follow, and where
// it cannot, instantiate anew and say why.
#include "graph/exec_core.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/device_events.hpp"
#include "graph/argument_checks.hpp"
#include "graph/difference.hpp"
#include "graph/host_calls.hpp"
#include "graph/marks.hpp"
#include "graph/meeting.hpp"
#include "graph/uses.hpp"
#include "graph/validate.hpp"

namespace attacca::graph {

ExecCore::ExecCore(const Graph& source, Target target) : source_(source), target_(target) {
  validate(data_of(source_), target_);
  instance_ = make_instance();
  upload();
}

std::unique_ptr<Instance> ExecCore::make_instance() const {
  const GraphData& data = data_of(source_);
  const std::shared_ptr<Marks> marks = marks_of(data.device);
  const std::optional<Marked> marked = marks ? with_marks(data, target_, marks) : std::nullopt;
  std::unique_ptr<Instance> instance = graph::make_instance(marked ? marked->data : data, target_);
  if (marked && marked->site != 0) marks->bind(marked->site, instance->handle().exec);
  return instance;
}

void ExecCore::upload() {
  if (target_ != Target::device_launch) return;
  instance_->upload();
  ++counters_.uploads;
}

void ExecCore::launch(StreamRef stream) {
  StreamState& state = state_of(stream);
  if (state.recorder)
    throw BadArgument(
        fmt::format("graph '{}' launched on a stream that is being captured; add it "
                    "with graph.child(…) instead",
                    source_.name()));
  if (!(state.device == data_of(source_).device))
    throw BadArgument(fmt::format(
        "graph '{}' is for {} and the stream is on {}; make the stream on "
        "the graph's device",
        source_.name(), source_.device().name(), name_beside(state.device, source_.device())));
  if (!lost_.empty())
    throw DeviceError(
        fmt::format("graph '{}' cannot be launched: an update failed, and so did the way back to "
                    "what it was ({}); update it again, or instantiate the graph anew",
                    source_.name(), lost_));
  const HostCall call(state.device, "launch a graph");
  using Passes = core::Listener<core::WorkPasses>;
  Passes::tell({data_of(source_).keeps});
  try {
    instance_->launch(*state.impl);
  } catch (...) {
    Passes::tell({data_of(source_).keeps, true});
    throw;
  }
  ++counters_.launches;
}

NodeId ExecCore::find(const Node& node) {
  const NodeId id = node.id();
  if (data_of(source_).find(id, node.graph_id())) return id;
  if (id < first_origins_.size() && first_origins_[id] == node.graph_id()) return id;
  throw BadArgument(fmt::format(
      "node number {} does not belong to graph '{}', or was added to a copy of it that this exec "
      "does not know; use a handle of the graph this exec was made from, or update the "
      "exec with that graph first (nodes of a graph copied in with child(name, graph) "
      "have no handles: build it in place)",
      id, source_.name()));
}

UpdateReport ExecCore::reinstantiate(Refusal refusal) {
  const DeviceGraph before = instance_->handle();
  // Make the new instance first: if that fails, the old one still runs.
  auto fresh = make_instance();
  if (target_ == Target::device_launch) {
    fresh->upload();
    ++counters_.uploads;
  }
  instance_ = std::move(fresh);
  lost_.clear();
  ++counters_.reinstantiations;
  return {true, std::move(refusal.reason), std::move(refusal.node),
          target_ == Target::device_launch && instance_->handle().exec != before.exec};
}

UpdateReport ExecCore::apply(const Changes& changes, const std::function<void()>& restore) {
  try {
    std::optional<Refusal> refusal;
    if (lost_.empty())
      refusal = instance_->apply(data_of(source_), changes);
    else
      refusal = Refusal{lost_, source_.name()};
    if (refusal) return reinstantiate(std::move(*refusal));
    upload();
    counters_.nodes_updated += changes.parameters.size() + changes.switches.size();
    return {};
  } catch (...) {
    restore();
    go_back(changes);
    throw;
  }
}

void ExecCore::go_back(const Changes& changes) {
  if (!lost_.empty()) return;
  try {
    if (!instance_->apply(data_of(source_), changes)) {
      upload();
      return;
    }
  } catch (...) {
    // Then the only way left is to instantiate anew.
  }
  try {
    reinstantiate({});
  } catch (const std::exception& error) {
    lost_ = error.what();
  }
}

namespace {
/// Whether two parts of a node use the same symbols in the same order.
bool uses_same_symbols(const GraphData& data, const Part& a, const Part& b) {
  const Uses in_a = uses_of(data, a);
  const Uses in_b = uses_of(data, b);
  return std::equal(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                    [](const Use& x, const Use& y) { return x.symbol == y.symbol; });
}
}  // namespace

UpdateReport ExecCore::change(const Node& node, const std::function<void(NodeData&)>& edit) {
  const NodeId id = find(node);
  NodeData& data = data_of(source_).nodes[id];
  Part before = data.part;
  const auto restore = [&] { data.part = std::move(before); };
  try {
    edit(data);
    // A new or a lost stand-in can break a rule. A plain value can only break the order of declared
    // accesses, which `instantiate` and `update` check.
    if (!uses_same_symbols(data_of(source_), before, data.part))
      validate(data_of(source_), target_);
    else if (const auto problems = address_problems(data_of(source_), data); !problems.empty())
      throw problems.front();
  } catch (...) {
    restore();
    throw;
  }
  return apply({.parameters = {&id, 1}, .switches = {}}, restore);
}

UpdateReport ExecCore::enable(const Node& node, bool is_enabled) {
  const NodeId id = find(node);
  NodeData& data = data_of(source_).nodes[id];
  if (!std::holds_alternative<KernelPart>(data.part) &&
      !std::holds_alternative<CopyPart>(data.part) && !std::holds_alternative<FillPart>(data.part))
    throw BadArgument(
        fmt::format("{} '{}' cannot be switched off; only kernels, copies and fills "
                    "can",
                    kind_name(data), data.name));
  const bool was_enabled = std::exchange(data.is_enabled, is_enabled);
  return apply({.parameters = {}, .switches = {&id, 1}}, [&] { data.is_enabled = was_enabled; });
}

UpdateReport ExecCore::update(const Graph& graph) {
  const GraphData& now = data_of(source_);
  const GraphData& next = data_of(graph);
  if (!(next.device == now.device))
    throw GraphError(Rule::two_devices, next.name,
                     fmt::format("graph '{}' is for {} and cannot update an exec for {}", next.name,
                                 name_beside(next.device, now.device), now.device.name()));
  validate(next, target_);
  if (auto difference = structural_difference(now, next)) {
    Graph before = std::move(source_);
    source_ = graph;
    try {
      UpdateReport report = reinstantiate(std::move(*difference));
      first_origins_.clear();
      return report;
    } catch (...) {
      source_ = std::move(before);
      throw;
    }
  }
  const ParameterDifference difference = parameter_difference(now, next);
  // Both graphs have the same shape and ids, so handles of either name the same nodes.
  if (first_origins_.empty())
    for (const NodeData& node : now.nodes) first_origins_.push_back(node.origin);
  Graph before = std::exchange(source_, graph);
  if (difference.parameters.empty() && difference.switches.empty() && lost_.empty()) return {};
  return apply({difference.parameters, difference.switches}, [&] { source_ = std::move(before); });
}

ExecMemory ExecCore::memory() const {
  ExecMemory memory;
  const GraphData& data = data_of(source_);
  memory.host_bytes = instance_->host_bytes() + sizeof(GraphData) +
                      data.l2_windows.size() * sizeof(decltype(data.l2_windows)::value_type) +
                      data.adopted_kernels.size() * sizeof(AdoptedKernel);
  for (const auto& [node, accesses] : data.accesses)
    memory.host_bytes += sizeof accesses + accesses.ranges().capacity() * sizeof(Accesses::Range);
  for (const NodeData& node : data.nodes) {
    memory.host_bytes += sizeof node + node.deps.heap_bytes();
    if (node.name.capacity() >= sizeof node.name) memory.host_bytes += node.name.capacity();
    if (const auto* kernel = std::get_if<KernelPart>(&node.part))
      memory.host_bytes += kernel->args.heap_bytes();
    if (const auto* allocate = std::get_if<AllocatePart>(&node.part))
      memory.pinned_bytes += data.symbols[allocate->symbol].bytes;
  }
  return memory;
}

}  // namespace attacca::graph
