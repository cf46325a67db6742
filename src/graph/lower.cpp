// lower.cpp: topological order and the inlining of children.
#include "graph/lower.hpp"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace attacca::graph {

std::vector<NodeId> topological_order(const GraphData& data, ScopeId scope, bool by_priority) {
  const std::vector<NodeId>& members = data.scopes[scope].nodes;
  // Most graphs are written producers first and without priorities, so they are in order already.
  const bool is_in_order = std::all_of(members.begin(), members.end(), [&](NodeId id) {
    const NodeData& node = data.nodes[id];
    return (!by_priority || node.priority == 0) &&
           std::all_of(node.deps.begin(), node.deps.end(),
                       [&](const Edge& edge) { return data.nodes[edge.from].place < node.place; });
  });
  if (is_in_order) return members;

  std::vector<std::vector<std::uint32_t>> consumers(members.size());
  std::vector<std::size_t> waiting(members.size());
  for (std::uint32_t at = 0; at < members.size(); ++at) {
    const NodeData& node = data.nodes[members[at]];
    waiting[at] = node.deps.size();
    for (const Edge& edge : node.deps) consumers[data.nodes[edge.from].place].push_back(at);
  }
  const auto later = [&](std::uint32_t a, std::uint32_t b) {
    const int pa = data.nodes[members[a]].priority;
    const int pb = data.nodes[members[b]].priority;
    return by_priority && pa != pb ? pa < pb : a > b;
  };
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, decltype(later)> ready(later);
  for (std::uint32_t at = 0; at < members.size(); ++at)
    if (waiting[at] == 0) ready.push(at);

  std::vector<NodeId> order;
  order.reserve(members.size());
  while (!ready.empty()) {
    const std::uint32_t at = ready.top();
    ready.pop();
    order.push_back(members[at]);
    for (const std::uint32_t consumer : consumers[at])
      if (--waiting[consumer] == 0) ready.push(consumer);
  }
  return order;
}

namespace {

void add_edge(std::vector<Edge>& edges, const Edge& edge) {
  const auto same = std::find_if(edges.begin(), edges.end(),
                                 [&](const Edge& other) { return other.from == edge.from; });
  if (same == edges.end())
    edges.push_back(edge);
  else if (edge.kind == EdgeKind::full)
    same->kind = EdgeKind::full;
}

bool is_child(const GraphData& data, NodeId id) {
  return std::holds_alternative<ChildPart>(data.nodes[id].part);
}

/// Appends a scope's nodes to `out`, its roots behind `entry`. Returns the dependencies of a node
/// that follows the whole scope.
std::vector<Edge> inline_scope(const GraphData& data, ScopeId scope, std::span<const Edge> entry,
                               Lowered& lowered, LoweredScope& out) {
  std::unordered_map<NodeId, std::vector<Edge>> exits;  // of the children met so far
  std::vector<bool> has_consumer(data.scopes[scope].nodes.size());
  std::vector<Edge> all_exits;
  const std::vector<NodeId> order = topological_order(data, scope);
  for (const NodeId id : order)
    for (const Edge& edge : data.nodes[id].deps) has_consumer[data.nodes[edge.from].place] = true;

  out.nodes.reserve(out.nodes.size() + order.size());
  for (const NodeId id : order) {
    const NodeData& node = data.nodes[id];
    std::span<const Edge> deps = node.deps;
    if (deps.empty()) deps = entry;
    if (std::any_of(node.deps.begin(), node.deps.end(),
                    [&](const Edge& edge) { return is_child(data, edge.from); })) {
      std::vector<Edge>& own = lowered.rewritten.emplace_back();
      for (const Edge& edge : node.deps) {
        if (!is_child(data, edge.from))
          add_edge(own, edge);
        else
          for (const Edge& exit : exits.at(edge.from)) add_edge(own, exit);
      }
      deps = own;
    }
    if (const auto* child = std::get_if<ChildPart>(&node.part)) {
      exits[id] = inline_scope(data, child->scope, deps, lowered, out);
      if (!has_consumer[node.place])
        for (const Edge& exit : exits[id]) add_edge(all_exits, exit);
    } else {
      out.nodes.push_back({id, deps});
      if (!has_consumer[node.place]) all_exits.push_back({id, EdgeKind::full});
    }
  }
  return order.empty() ? std::vector<Edge>(entry.begin(), entry.end()) : all_exits;
}

}  // namespace

Lowered lower(const GraphData& data) {
  Lowered lowered;
  inline_scope(data, kRootScope, {}, lowered, lowered.root);
  lowered.bodies.resize(data.scopes.size());
  for (ScopeId scope = 1; scope < data.scopes.size(); ++scope)
    if (data.scopes[scope].is_body) inline_scope(data, scope, {}, lowered, lowered.bodies[scope]);
  return lowered;
}

}  // namespace attacca::graph
