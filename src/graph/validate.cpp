// validate.cpp: rules about scopes, the place of a node and its edges. Rules about symbols are in
// validate_symbols.cpp and rules about nodes side by side in validate_overlap.cpp; those that need
// an order are skipped once there is a cycle.
#include "graph/validate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/residency.hpp"
#include "graph/uses.hpp"

namespace attacca::graph {

namespace {

class StructureChecks {
 public:
  explicit StructureChecks(Validation& validation)
      : validation_(validation),
        data_(validation.data),
        order_(validation.order),
        is_in_body_(validation.data.scopes.size()) {}

  /// Returns whether the graph is free of cycles.
  bool run() {
    if (is_hollow(kRootScope))
      add(Rule::empty_graph, data_.name,
          fmt::format("graph '{}' has no nodes; add one before instantiating it", data_.name));
    for (ScopeId scope = 0; scope < data_.scopes.size(); ++scope) check_scope(scope);
    for (NodeId id = 0; id < data_.nodes.size(); ++id) {
      check_place(id);
      check_edges(id);
    }
    return !has_cycle_;
  }

 private:
  void add(Rule rule, const std::string& node, const std::string& message) {
    validation_.add(rule, node, message);
  }
  std::string body_around(ScopeId scope) const { return validation_.body_around(scope); }

  bool is_hollow(ScopeId scope) const {
    return std::all_of(data_.scopes[scope].nodes.begin(), data_.scopes[scope].nodes.end(),
                       [&](NodeId id) {
                         const auto* child = std::get_if<ChildPart>(&data_.nodes[id].part);
                         return child && is_hollow(child->scope);
                       });
  }

  void check_scope(ScopeId scope) {
    const Scope& inside = data_.scopes[scope];
    is_in_body_[scope] =
        inside.is_body || (inside.parent != kNone && is_in_body_[data_.nodes[inside.parent].scope]);
    if (inside.is_body && is_hollow(scope)) {
      const NodeData& parent = data_.nodes[inside.parent];
      add(Rule::empty_body, parent.name,
          fmt::format("the {} of {} '{}' is empty; give it a node or leave the branch out",
                      inside.label, kind_name(parent), parent.name));
    }
    const std::vector<NodeId>& order = order_.of(scope);
    if (order.size() == inside.nodes.size()) return;

    has_cycle_ = true;
    report_cycles(inside.nodes, order);
  }

  /// Reports cycles until each node that waits for itself is in one.
  void report_cycles(const std::vector<NodeId>& members, const std::vector<NodeId>& order) {
    // A node missing from the order is in a cycle or depends on one.
    std::unordered_set<NodeId> in_none(order.begin(), order.end());
    std::unordered_set<NodeId> reported;
    for (const NodeId id : members) {
      if (in_none.contains(id) || reported.contains(id)) continue;
      const std::vector<NodeId> cycle = shortest_cycle(id, in_none);
      if (cycle.empty()) {
        in_none.insert(id);
        continue;
      }
      reported.insert(cycle.begin(), cycle.end());
      std::string spelled = fmt::format("'{}'", data_.nodes[id].name);
      for (const NodeId step : cycle) spelled += fmt::format(" → '{}'", data_.nodes[step].name);
      add(Rule::cycle, data_.nodes[id].name,
          fmt::format("'{}' waits for itself: {}; remove one of these edges, or write a loop with "
                      "while_",
                      data_.nodes[id].name, spelled));
    }
  }

  /// The nodes behind `id` on a way along edges back to it, `id` last; empty if there is none.
  std::vector<NodeId> shortest_cycle(NodeId id, const std::unordered_set<NodeId>& in_none) const {
    std::unordered_map<NodeId, NodeId> consumer;  // on the way from a node to `id`
    std::vector<NodeId> open{id};
    for (std::size_t next = 0; next < open.size(); ++next)
      for (const Edge& edge : data_.nodes[open[next]].deps) {
        if (in_none.contains(edge.from) || !consumer.emplace(edge.from, open[next]).second)
          continue;
        if (edge.from != id) {
          open.push_back(edge.from);
          continue;
        }
        std::vector<NodeId> cycle{consumer[id]};
        while (cycle.back() != id) cycle.push_back(consumer[cycle.back()]);
        return cycle;
      }
    return {};
  }

  void check_place(NodeId id) {
    const NodeData& node = data_.nodes[id];
    const bool is_in_body = is_in_body_[node.scope];
    const bool is_device_graph = validation_.target == Target::device_launch;
    const bool is_memory = std::holds_alternative<AllocatePart>(node.part) ||
                           std::holds_alternative<FreePart>(node.part);
    if (is_memory && is_in_body)
      add(Rule::allocation_in_body, node.name,
          fmt::format("{} '{}' {}: bodies hold no memory nodes; allocate before the conditional, "
                      "or from an Arena",
                      kind_name(node), node.name, body_around(node.scope)));
    if (is_memory && is_device_graph)
      add(Rule::allocation_in_device_graph, node.name,
          fmt::format(
              "{} '{}' in device graph '{}': graphs launched from the device hold no memory "
              "nodes; use an Arena",
              kind_name(node), node.name, data_.name));
    if (std::holds_alternative<ConditionalPart>(node.part) && is_device_graph)
      add(Rule::conditional_in_device_graph, node.name,
          fmt::format("{} '{}' in device graph '{}': graphs launched from the device hold no "
                      "conditionals; launch one of several device graphs instead",
                      kind_name(node), node.name, data_.name));
    if (std::holds_alternative<HostPart>(node.part)) {
      if (is_in_body)
        add(Rule::node_in_body, node.name,
            fmt::format("host call '{}' {}: bodies run without the host; move it outside",
                        node.name, body_around(node.scope)));
      if (is_device_graph)
        add(Rule::node_in_device_graph, node.name,
            fmt::format("host call '{}' in device graph '{}': graphs launched from the device run "
                        "without the host; move it to the launching side",
                        node.name, data_.name));
    }
    for (GraphError& problem : address_problems(data_, node))
      validation_.problems.push_back(std::move(problem));
    const auto* kernel = std::get_if<KernelPart>(&node.part);
    if (!kernel) return;
    if (kernel->info->traits.launches && is_in_body)
      add(Rule::launch_in_body, node.name,
          fmt::format(
              "kernel '{}' launches graphs {}: not allowed inside conditionals; move it out, "
              "or make the choice with the conditional",
              node.name, body_around(node.scope)));
    if (kernel->info->traits.spawns && is_in_body)
      add(Rule::spawn_in_body, node.name,
          fmt::format("kernel '{}' spawns kernels {}: not allowed inside conditionals; move it out",
                      node.name, body_around(node.scope)));
    if (kernel->info->traits.spawns && is_device_graph)
      add(Rule::spawn_in_device_graph, node.name,
          fmt::format("kernel '{}' spawns kernels in device graph '{}': not allowed there; launch "
                      "graphs instead, or instantiate it for the host",
                      node.name, data_.name));
    if (data_.device.is_cuda() && !kernel->info->cuda)
      add(Rule::no_body_for_backend, node.name,
          fmt::format("kernel '{}' has no CUDA body; compile the file that calls make_kernel with "
                      "nvcc (attacca_kernels in CMake)",
                      node.name));
    else if (const auto crowding =
                 find_crowding(impl_of(data_.device), *kernel->info, kernel->grid, node.name))
      add(Rule::blocks_may_not_fit, node.name, *crowding);
    if (!data_.device.is_cuda() && !kernel->info->host)
      add(Rule::no_body_for_backend, node.name,
          fmt::format(
              "kernel '{}' is a plain CUDA kernel and graph '{}' is for {}; build the graph "
              "for a CUDA device, or declare a kernel with a host body (make_kernel)",
              node.name, data_.name, data_.device.name()));
  }

  void check_edges(NodeId id) {
    const NodeData& node = data_.nodes[id];
    for (const Edge& edge : node.deps) {
      if (edge.kind != EdgeKind::programmatic) continue;
      const NodeData& from = data_.nodes[edge.from];
      const auto* consumer = std::get_if<KernelPart>(&node.part);
      if (!consumer || !std::holds_alternative<KernelPart>(from.part))
        add(Rule::programmatic_edge, node.name,
            fmt::format("programmatic edge from {} '{}' to {} '{}': only kernel to kernel; use "
                        "after(…)",
                        kind_name(from), from.name, kind_name(node), node.name));
      else if (!consumer->info->traits.waits)
        add(Rule::consumer_never_waits, node.name,
            fmt::format("programmatic edge to kernel '{}', which never waits for its producers: a "
                        "race; call wait_for_producers in it and declare waits = true, or use "
                        "after(…)",
                        node.name));
    }
  }

  Validation& validation_;
  const GraphData& data_;
  const Order& order_;
  bool has_cycle_ = false;
  std::vector<bool> is_in_body_;  // by scope
};

}  // namespace

std::string Validation::body_around(ScopeId scope) const {
  for (; data.scopes[scope].parent != kNone; scope = data.nodes[data.scopes[scope].parent].scope) {
    const NodeData& parent = data.nodes[data.scopes[scope].parent];
    if (data.scopes[scope].is_body)
      return fmt::format("in the {} of {} '{}'", data.scopes[scope].label, kind_name(parent),
                         parent.name);
  }
  return "";
}

std::vector<GraphError> find_problems(const GraphData& data, Target target) {
  Validation validation(data, target);
  const bool is_ordered = StructureChecks(validation).run();
  check_symbols(validation, is_ordered);
  if (is_ordered) check_overlaps(validation);
  return std::move(validation.problems);
}

void validate(const GraphData& data, Target target) {
  const std::vector<GraphError> problems = find_problems(data, target);
  if (!problems.empty()) throw problems.front();
}

}  // namespace attacca::graph
