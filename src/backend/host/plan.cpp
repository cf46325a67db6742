// plan.cpp: compiles a graph into a Plan: symbols, scopes, successors and settings in turn.
#include "backend/host/plan.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/free_memory.hpp"
#include "graph/relocate.hpp"

namespace attacca::host {

using namespace graph;
using attacca::detail::HandleKind;

Plan::Plan(const GraphData& data) : name(data.name) {
  make_symbols(data);
  const Consumers consumers = add_scopes(data, lower(data));
  link_successors(consumers);
  settings.resize(nodes.size());
  for (NodeId id = 0; id < data.nodes.size(); ++id) {
    const std::uint32_t at = index_of[id];
    if (at == kNone) continue;
    const auto* kernel = std::get_if<KernelPart>(&data.nodes[id].part);
    has_updatable_nodes = has_updatable_nodes || (kernel && kernel->is_device_updatable);
    settings.newest(at).is_enabled = data.nodes[id].is_enabled;
    read_part(data, id, settings.newest(at));
    point_slot(at);
  }
}

Block make_block(std::size_t bytes) {
  // More than a process has addresses is not even asked for: sanitizers end the program for that.
  constexpr std::size_t kAddresses = std::size_t{1} << 47;
  void* block = bytes < kAddresses
                    ? ::operator new(std::max<std::size_t>(bytes, 1),
                                     std::align_val_t(FreeBlock::kAlignment), std::nothrow)
                    : nullptr;
  if (!block)
    throw DeviceError(fmt::format("the host has no room for {} bytes; {} are free, so ask for less",
                                  bytes, core::free_memory()));
  return Block(static_cast<std::byte*>(block));
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
    for (const LoweredNode& node : source->nodes) add_node(data, node, scope_at, scope, consumers);
  }
  return consumers;
}

void Plan::add_node(const GraphData& data, const LoweredNode& lowered,
                    const std::vector<std::uint32_t>& scope_at, PlanScope& scope,
                    Consumers& consumers) {
  const NodeData& from = data.nodes[lowered.id];
  const auto at = static_cast<std::uint32_t>(nodes.size());
  index_of[lowered.id] = at;
  PlanNode& node = nodes.emplace_back();
  node.name = from.name;
  if (const auto site = data.launch_sites.find(lowered.id); site != data.launch_sites.end())
    node.site = site->second;
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

void Plan::apply(const GraphData& data, const Changes& changes) {
  VersionedSettings::Writer writer(settings);
  if (has_updatable_nodes) {
    // Device code may have changed a node's switch where we set its part, or the other way round.
    for (const NodeId id : changes.parameters) {
      read_part(data, id, settings.newest(index_of[id]));
      point_slot(index_of[id]);
    }
    for (const NodeId id : changes.switches)
      settings.newest(index_of[id]).is_enabled = data.nodes[id].is_enabled;
    return;
  }
  for (const auto& changed : {changes.parameters, changes.switches}) {
    for (const NodeId id : changed) {
      Settings& next = writer[index_of[id]];
      next.is_enabled = data.nodes[id].is_enabled;
      read_part(data, id, next);
    }
    writer.publish();  // a node may be in both lists
  }
}

void Plan::read_part(const GraphData& data, NodeId id, Settings& into) {
  into.part = data.nodes[id].part;
  relocate(data, into.part, HandleKind::host,
           [&](SymbolId symbol) { return address_of(data, symbol); });
}

void Plan::point_slot(std::uint32_t index) {
  Settings& now = settings.newest(index);
  if (auto* kernel = std::get_if<KernelPart>(&now.part))
    nodes[index].slot = {kernel->args.data(), kernel->args.size(), &kernel->grid, &now.is_enabled};
}

std::uintptr_t Plan::address_of(const GraphData& data, SymbolId id) {
  switch (data.symbols[id].kind) {
    case SymbolKind::condition:
      return reinterpret_cast<std::uintptr_t>(&conditions[id]);
    case SymbolKind::node:
      return reinterpret_cast<std::uintptr_t>(&nodes[index_of[data.symbols[id].owner]].slot);
    case SymbolKind::allocation:
      break;
  }
  return reinterpret_cast<std::uintptr_t>(allocations_[id]);
}

void Plan::reset_conditions() { conditions = initial_conditions; }

std::size_t Plan::bytes() const {
  std::size_t sum = sizeof *this + settings.bytes();
  for (const PlanNode& node : nodes) {
    sum += sizeof node + node.bodies.capacity() * sizeof(std::uint32_t);
    if (node.name.capacity() >= sizeof node.name) sum += node.name.capacity();
    sum += sizeof pending[0];
  }
  const auto of = [](const auto& list) { return list.capacity() * sizeof list[0]; };
  for (const PlanScope& scope : scopes) sum += of(scope.order) + of(scope.roots);
  return sum + of(index_of) + of(successors) + of(first_successor) + of(dependency_count);
}

}  // namespace attacca::host
