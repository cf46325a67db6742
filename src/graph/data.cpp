// data.cpp: the ids of graphs, the rollback of what was added, and questions about single nodes.
#include "graph/data.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace attacca::graph {

namespace {

constexpr std::size_t kFirstNodes = 64;  // room before the list grows for the first time

std::uint64_t next_graph_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

GraphData::GraphData(Device on, std::string called)
    : id(next_graph_id()), name(std::move(called)), device(std::move(on)) {
  nodes.reserve(kFirstNodes);
  scopes.emplace_back().nodes.reserve(kFirstNodes);
}

void GraphData::become_another() {
  id = next_graph_id();
  symbols.leave_shared_range();
}

const L2Window* GraphData::find_l2_window(const NodeData& node) const {
  if (l2_windows.empty()) return nullptr;
  const auto found = l2_windows.find(scopes[node.scope].nodes[node.place]);
  return found == l2_windows.end() ? nullptr : &found->second;
}

std::optional<ScopeId> GraphData::loop_around(ScopeId scope) const {
  while (scopes[scope].parent != kNone) {
    const NodeData& parent = nodes[scopes[scope].parent];
    const auto* conditional = std::get_if<ConditionalPart>(&parent.part);
    if (conditional && conditional->kind == ConditionalKind::while_) return scope;
    scope = parent.scope;
  }
  return std::nullopt;
}

Rollback::Rollback(GraphData& data)
    : data_(data),
      nodes_(static_cast<NodeId>(data.nodes.size())),
      scopes_(data.scopes.size()),
      symbols_(static_cast<SymbolId>(data.symbols.size())) {}

Rollback::~Rollback() {
  if (is_kept_) return;
  // Later nodes reuse these ids. A new graph id keeps handles of the removed nodes from naming
  // them.
  data_.id = next_graph_id();
  for (std::size_t at = symbols_; at < data_.symbols.size(); ++at)
    if (const Symbol& symbol = data_.symbols[at];
        symbol.kind == SymbolKind::node && symbol.owner < nodes_)
      std::get<KernelPart>(data_.nodes[symbol.owner].part).is_device_updatable = false;
  data_.symbols.shrink_to(symbols_);
  data_.nodes.erase(data_.nodes.begin() + nodes_, data_.nodes.end());
  data_.scopes.erase(data_.scopes.begin() + static_cast<std::ptrdiff_t>(scopes_),
                     data_.scopes.end());
  data_.l2_windows.erase(data_.l2_windows.lower_bound(nodes_), data_.l2_windows.end());
  data_.adopted_kernels.erase(data_.adopted_kernels.lower_bound(nodes_),
                              data_.adopted_kernels.end());
  data_.accesses.erase(data_.accesses.lower_bound(nodes_), data_.accesses.end());
  // Nodes that stay may have edges to nodes that go, and scopes that stay may list them.
  for (Scope& scope : data_.scopes)
    std::erase_if(scope.nodes, [&](NodeId node) { return node >= nodes_; });
  for (NodeData& node : data_.nodes)
    node.deps.erase_if([&](const Edge& edge) { return edge.from >= nodes_; });
}

const char* kind_name(const NodeData& node) {
  struct Visitor {
    const char* operator()(const KernelPart&) const { return "kernel"; }
    const char* operator()(const CopyPart&) const { return "copy"; }
    const char* operator()(const FillPart&) const { return "fill"; }
    const char* operator()(const HostPart&) const { return "host call"; }
    const char* operator()(const LibraryPart&) const { return "library call"; }
    const char* operator()(const ChildPart&) const { return "child"; }
    const char* operator()(const AllocatePart&) const { return "allocation"; }
    const char* operator()(const FreePart&) const { return "free"; }
    const char* operator()(const ConditionalPart& part) const {
      if (part.kind == ConditionalKind::while_) return "while";
      if (part.kind == ConditionalKind::switch_) return "switch";
      return part.bodies.size() == 2 ? "if/else" : "if";
    }
  };
  return std::visit(Visitor{}, node.part);
}

std::vector<ScopeId> insides_of(const NodeData& node) {
  if (const auto* child = std::get_if<ChildPart>(&node.part)) return {child->scope};
  if (const auto* conditional = std::get_if<ConditionalPart>(&node.part))
    return conditional->bodies;
  return {};
}

CopyPart copy_part(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows) {
  if (rows == 1 || (to.pitch == width_bytes && from.pitch == width_bytes))
    return {to.data, from.data, width_bytes * rows};
  return {to.data, from.data, width_bytes, rows, to.pitch, from.pitch};
}

std::vector<NodeId> last_nodes(const GraphData& data, ScopeId scope) {
  std::vector<bool> has_follower(data.nodes.size());
  for (const NodeData& node : data.nodes)
    for (const Edge& edge : node.deps) has_follower[edge.from] = true;
  std::vector<NodeId> last;
  for (const NodeId id : data.scopes[scope].nodes)
    if (!has_follower[id]) last.push_back(id);
  return last;
}

}  // namespace attacca::graph
