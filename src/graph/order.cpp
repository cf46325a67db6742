// order.cpp: answers questions of order from places and chains, and where those do not tell, from a
// sweep over the nodes between the two.
#include "graph/order.hpp"

#include <algorithm>

#include "graph/lower.hpp"

namespace attacca::graph {

Order::Order(const GraphData& data) : data_(data), place_(data.nodes.size()) {
  order_.reserve(data.scopes.size());
  for (ScopeId scope = 0; scope < data.scopes.size(); ++scope) {
    const std::vector<NodeId>& order = order_.emplace_back(topological_order(data, scope));
    for (std::uint32_t at = 0; at < order.size(); ++at) place_[order[at]] = at;
  }
}

bool Order::is_inside(ScopeId scope, ScopeId outer) const {
  for (; scope != outer; scope = data_.nodes[data_.scopes[scope].parent].scope)
    if (data_.scopes[scope].parent == kNone) return false;
  return true;
}

NodeId Order::lifted(NodeId id, ScopeId scope) const {
  while (data_.nodes[id].scope != scope) id = data_.scopes[data_.nodes[id].scope].parent;
  return id;
}

ScopeId Order::common_scope(NodeId a, NodeId b) const {
  ScopeId scope = data_.nodes[a].scope;
  while (!is_inside(data_.nodes[b].scope, scope))
    scope = data_.nodes[data_.scopes[scope].parent].scope;
  return scope;
}

bool Order::is_before(NodeId first, NodeId second) const {
  return Sweep(*this, second, Sweep::Of::earlier).contains(first);
}

void Order::find_chains() const {
  chain_start_.resize(data_.nodes.size());
  for (const std::vector<NodeId>& order : order_)
    for (std::uint32_t at = 0; at < order.size(); ++at) {
      const auto& deps = data_.nodes[order[at]].deps;
      const bool is_linked =
          at != 0 && std::any_of(deps.begin(), deps.end(), [&](const Edge& edge) {
            return edge.from == order[at - 1] && edge.kind == EdgeKind::full;
          });
      chain_start_[order[at]] = is_linked ? chain_start_[order[at - 1]] : at;
    }
}

void Order::number(ScopeId scope, std::uint32_t& next) const {
  for (const NodeId id : order_[scope]) {
    number_[id] = next++;
    for (const ScopeId inside : insides_of(data_.nodes[id])) number(inside, next);
  }
}

void Order::sort(std::vector<NodeId>& nodes) const {
  if (number_.empty()) {
    number_.resize(data_.nodes.size());
    std::uint32_t next = 0;
    number(kRootScope, next);
  }
  std::sort(nodes.begin(), nodes.end(),
            [&](NodeId a, NodeId b) { return number_[a] < number_[b]; });
}

bool Sweep::contains(NodeId other) {
  const ScopeId scope = order_.common_scope(node_, other);
  const NodeId node = order_.lifted(node_, scope);
  const NodeId first = of_ == Of::earlier ? order_.lifted(other, scope) : node;
  const NodeId second = of_ == Of::earlier ? node : order_.lifted(other, scope);
  if (order_.place_[first] >= order_.place_[second]) return false;
  if (order_.chain_start_.empty()) order_.find_chains();
  if (order_.chain_start_[second] <= order_.place_[first]) return true;
  return of_ == Of::earlier ? look_back(second, first) : look_ahead(first, second);
}

Sweep::Pass& Sweep::pass_from(NodeId from) {
  const auto [found, is_new] = passes_.try_emplace(from);
  Pass& pass = found->second;
  if (is_new) {
    pass.reach.resize(order_.of(order_.data_.nodes[from].scope).size());
    pass.next = order_.place_[from];
  }
  return pass;
}

/// full: ends before `from` starts. weak: starts before `from` starts.
bool Sweep::look_back(NodeId from, NodeId to) {
  const std::vector<NodeId>& order = order_.of(order_.data_.nodes[from].scope);
  const std::uint32_t place = order_.place_[to];
  Pass& pass = pass_from(from);
  if (pass.next == order_.place_[from]) pass.reach[pass.next] = Reach::weak;
  for (; pass.next > place; --pass.next) {
    const Reach reach = pass.reach[pass.next];
    if (reach == Reach::none) continue;
    for (const Edge& edge : order_.data_.nodes[order[pass.next]].deps) {
      Reach& producer = pass.reach[order_.place_[edge.from]];
      producer = std::max(producer, edge.kind == EdgeKind::full ? Reach::full : reach);
    }
  }
  return pass.reach[place] == Reach::full;
}

/// full: starts after `from` has ended. weak: ends after `from` has ended.
bool Sweep::look_ahead(NodeId from, NodeId to) {
  const std::vector<NodeId>& order = order_.of(order_.data_.nodes[from].scope);
  const std::uint32_t start = order_.place_[from];
  const std::uint32_t place = order_.place_[to];
  Pass& pass = pass_from(from);
  if (pass.next == start) ++pass.next;
  for (; pass.next <= place; ++pass.next) {
    Reach& reach = pass.reach[pass.next];
    for (const Edge& edge : order_.data_.nodes[order[pass.next]].deps) {
      const std::uint32_t producer = order_.place_[edge.from];
      const Reach before = producer == start ? Reach::weak : pass.reach[producer];
      if (before == Reach::none) continue;
      reach = std::max(reach, edge.kind == EdgeKind::full ? Reach::full : before);
    }
  }
  return pass.reach[place] == Reach::full;
}

}  // namespace attacca::graph
