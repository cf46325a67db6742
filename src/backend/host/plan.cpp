// plan.cpp: compiles a graph into a Plan: symbols, scopes, successors and arguments in turn.
#include "backend/host/plan.hpp"

#include <cstring>
#include <utility>

#include "graph/relocate.hpp"

namespace attacca::host {

using namespace graph;
using attacca::detail::HandleKind;

namespace {
/// Rounds up to the strictest alignment that an argument struct may ask for, which is what new
/// gives.
std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t unit = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  return (bytes + unit - 1) / unit * unit;
}
}  // namespace

Plan::Plan(const GraphData& data) : name(data.name) {
  make_symbols(data);
  const Consumers consumers = add_scopes(data, lower(data));
  link_successors(consumers);
  place_arguments(data);
  for (NodeId id = 0; id < data.nodes.size(); ++id)
    if (index_of[id] != kNone) read_parameters(data, id);
}

void Plan::make_symbols(const GraphData& data) {
  conditions.resize(data.symbols.size());
  initial_conditions.resize(data.symbols.size());
  allocations_.resize(data.symbols.size());
  for (SymbolId id = 0; id < data.symbols.size(); ++id) {
    const Symbol& symbol = data.symbols[id];
    initial_conditions[id] = symbol.initial;
    if (symbol.kind == SymbolKind::allocation) {
      blocks.push_back(make_block(symbol.bytes));
      allocations_[id] = blocks.back().get();
      std::memset(allocations_[id], 0, symbol.bytes);
    }
  }
  reset_conditions();
}

Plan::Consumers Plan::add_scopes(const GraphData& data, const Lowered& lowered) {
  // The root comes first, then the bodies; scope_at maps a ScopeId to its index.
  std::vector<const LoweredScope*> sources{&lowered.root};
  std::vector<std::uint32_t> scope_at(data.scopes.size(), kNone);
  for (ScopeId scope = 1; scope < data.scopes.size(); ++scope)
    if (data.scopes[scope].is_body) {
      scope_at[scope] = static_cast<std::uint32_t>(sources.size());
      sources.push_back(&lowered.bodies[scope]);
    }

  std::size_t count = 0;
  for (const LoweredScope* source : sources) count += source->nodes.size();
  index_of.assign(data.nodes.size(), kNone);
  nodes.reserve(count);
  dependency_count.reserve(count);
  Consumers consumers(count);
  for (const LoweredScope* source : sources) {
    PlanScope& scope = scopes.emplace_back();
    scope.is_sequence = true;
    for (const LoweredNode& node : source->nodes)
      add_node(data.nodes[node.id], node, scope_at, scope, consumers);
  }
  return consumers;
}

void Plan::add_node(const NodeData& from, const LoweredNode& lowered,
                    const std::vector<std::uint32_t>& scope_at, PlanScope& scope,
                    Consumers& consumers) {
  const auto at = static_cast<std::uint32_t>(nodes.size());
  index_of[lowered.id] = at;
  PlanNode& node = nodes.emplace_back();
  node.name = from.name;
  node.is_enabled = from.is_enabled;
  if (const auto* conditional = std::get_if<ConditionalPart>(&from.part))
    for (const ScopeId body : conditional->bodies) node.bodies.push_back(scope_at[body]);

  const std::uint32_t previous = scope.order.empty() ? kNone : scope.order.back();
  bool follows_previous = previous == kNone && lowered.deps.empty();
  for (const Edge& edge : lowered.deps) {
    const std::uint32_t producer = index_of[edge.from];
    consumers[producer].push_back(at);
    follows_previous = follows_previous || producer == previous;
    if (edge.kind == EdgeKind::programmatic) node.has_programmatic_producer = true;
  }
  dependency_count.push_back(static_cast<std::uint32_t>(lowered.deps.size()));
  scope.order.push_back(at);
  if (lowered.deps.empty()) scope.roots.push_back(at);
  scope.is_sequence = scope.is_sequence && follows_previous;
}

void Plan::link_successors(const Consumers& consumers) {
  first_successor.push_back(0);
  for (const auto& list : consumers) {
    successors.insert(successors.end(), list.begin(), list.end());
    first_successor.push_back(static_cast<std::uint32_t>(successors.size()));
  }
  pending = std::make_unique<std::atomic<std::uint32_t>[]>(nodes.size());
  for (std::size_t at = 0; at < nodes.size(); ++at)
    pending[at].store(dependency_count[at], std::memory_order_relaxed);
}

void Plan::place_arguments(const GraphData& data) {
  std::size_t args_bytes = 0;
  for (const NodeData& node : data.nodes)
    if (const auto* kernel = std::get_if<KernelPart>(&node.part))
      args_bytes += aligned(kernel->args.size());
  args_storage = std::make_unique<std::byte[]>(args_bytes);
  std::byte* next_args = args_storage.get();
  for (NodeId id = 0; id < data.nodes.size(); ++id)
    if (const auto* kernel = std::get_if<KernelPart>(&data.nodes[id].part)) {
      PlanNode& node = node_of(id);
      has_updatable_nodes = has_updatable_nodes || kernel->is_device_updatable;
      node.args = std::exchange(next_args, next_args + aligned(kernel->args.size()));
      node.slot = {node.args, kernel->args.size(), &node.grid, &node.is_enabled};
    }
}

void Plan::read_parameters(const GraphData& data, NodeId id) {
  PlanNode& node = node_of(id);
  node.part = data.nodes[id].part;
  relocate(data, node.part, HandleKind::host,
           [&](SymbolId symbol) { return address_of(data, symbol); });
  if (auto* kernel = std::get_if<KernelPart>(&node.part)) {
    node.grid = kernel->grid;
    std::memcpy(node.args, kernel->args.data(), kernel->args.size());
    kernel->args = {};
  } else if (const auto* conditional = std::get_if<ConditionalPart>(&node.part)) {
    node.condition = reinterpret_cast<unsigned*>(conditional->condition);
  }
}

std::uintptr_t Plan::address_of(const GraphData& data, SymbolId id) {
  switch (data.symbols[id].kind) {
    case SymbolKind::condition:
      return reinterpret_cast<std::uintptr_t>(&conditions[id]);
    case SymbolKind::node:
      return reinterpret_cast<std::uintptr_t>(&node_of(data.symbols[id].owner).slot);
    case SymbolKind::allocation:
      break;
  }
  return reinterpret_cast<std::uintptr_t>(allocations_[id]);
}

void Plan::reset_conditions() { conditions = initial_conditions; }

std::size_t Plan::bytes() const {
  std::size_t sum = sizeof *this;
  for (const PlanNode& node : nodes) {
    sum += sizeof node + node.bodies.capacity() * sizeof(std::uint32_t);
    if (node.name.capacity() >= sizeof node.name) sum += node.name.capacity();
    sum += aligned(node.slot.args_size) + sizeof pending[0];
  }
  const auto of = [](const auto& list) { return list.capacity() * sizeof list[0]; };
  for (const PlanScope& scope : scopes) sum += of(scope.order) + of(scope.roots);
  return sum + of(index_of) + of(successors) + of(first_successor) + of(dependency_count);
}

}  // namespace attacca::host
