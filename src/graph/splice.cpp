// splice.cpp: copies nodes, scopes and symbols, and writes the new stand-ins over the old.
#include "graph/splice.hpp"

#include "graph/relocate.hpp"

namespace attacca::graph {

namespace {

/// Writes the stand-ins of `to` over those of `from` in a part copied from there.
void rebase(const GraphData& from, const GraphData& to, const std::vector<SymbolId>& symbol_map,
            Part& part) {
  relocate(from, part, attacca::detail::HandleKind::unresolved,
           [&](SymbolId symbol) { return to.symbols[symbol_map[symbol]].address; });
  if (auto* allocate = std::get_if<AllocatePart>(&part))
    allocate->symbol = symbol_map[allocate->symbol];
}

/// Declared accesses with the stand-ins of `to`.
Accesses rebased(const GraphData& from, const GraphData& to,
                 const std::vector<SymbolId>& symbol_map, const Accesses& original) {
  Accesses result;
  for (const Accesses::Range& range : original.ranges()) {
    const std::uintptr_t first =
        relocated(from, reinterpret_cast<std::uintptr_t>(range.first),
                  [&](SymbolId symbol) { return to.symbols[symbol_map[symbol]].address; });
    result.add({reinterpret_cast<const void*>(first), range.bytes, range.is_write});
  }
  return result;
}

}  // namespace

NodeId splice(const GraphData& from, GraphData& to, ScopeId into) {
  const auto node_offset = static_cast<NodeId>(to.nodes.size());
  const auto scope_of = [&, first = static_cast<ScopeId>(to.scopes.size())](ScopeId scope) {
    return scope == kRootScope ? into : first + scope - 1;
  };
  std::vector<SymbolId> symbol_map;
  for (const Symbol& symbol : from.symbols) {
    const std::uint32_t owner =
        symbol.kind == SymbolKind::condition ? scope_of(symbol.owner) : symbol.owner + node_offset;
    symbol_map.push_back(
        to.symbols.add(symbol.kind, symbol.name, symbol.bytes, owner, symbol.initial));
  }
  const auto place_offset = static_cast<std::uint32_t>(to.scopes[into].nodes.size());
  for (const NodeId id : from.scopes[kRootScope].nodes)
    to.scopes[into].nodes.push_back(id + node_offset);
  for (std::size_t scope = 1; scope < from.scopes.size(); ++scope) {
    Scope copy = from.scopes[scope];
    copy.parent += node_offset;
    for (NodeId& id : copy.nodes) id += node_offset;
    to.scopes.push_back(std::move(copy));
  }
  for (const NodeData& original : from.nodes) {
    NodeData copy = original;
    copy.scope = scope_of(original.scope);
    if (original.scope == kRootScope) copy.place += place_offset;
    copy.origin = to.id;
    for (Edge& edge : copy.deps) edge.from += node_offset;
    if (auto* child = std::get_if<ChildPart>(&copy.part)) child->scope = scope_of(child->scope);
    if (auto* conditional = std::get_if<ConditionalPart>(&copy.part))
      for (ScopeId& body : conditional->bodies) body = scope_of(body);
    rebase(from, to, symbol_map, copy.part);
    to.nodes.push_back(std::move(copy));
  }
  for (const auto& [node, window] : from.l2_windows) to.l2_windows[node + node_offset] = window;
  for (const auto& [node, kernel] : from.adopted_kernels)
    to.adopted_kernels[node + node_offset] = kernel;
  for (const auto& [node, accesses] : from.accesses)
    to.accesses[node + node_offset] = rebased(from, to, symbol_map, accesses);
  to.keeps.insert(to.keeps.end(), from.keeps.begin(), from.keeps.end());
  return node_offset;
}

}  // namespace attacca::graph
