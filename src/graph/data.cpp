// data.cpp: symbols, and where a graph uses them.
#include "graph/data.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "graph/relocate.hpp"

namespace attacca::graph {

namespace {

constexpr std::size_t kFirstNodes = 64;  // room before the list grows for the first time
constexpr std::size_t kSmallSymbolBytes = 16;
constexpr std::size_t kSmallRangeBytes = 64 * 1024;

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
  small_symbols.reset();  // two graphs must not hand out the same stand-in
}

SymbolId GraphData::add_symbol(SymbolKind kind, std::string called, std::size_t bytes,
                               std::uint32_t owner) {
  Symbol symbol{kind, std::move(called), 0, bytes, owner, 0, nullptr};
  if (kind == SymbolKind::allocation) {
    symbol.range = std::make_shared<AddressRange>(bytes);
    symbol.address = symbol.range->base();
  } else {
    if (!small_symbols || small_symbols_used + kSmallSymbolBytes > small_symbols->bytes()) {
      small_symbols = std::make_shared<AddressRange>(kSmallRangeBytes);
      small_symbols_used = 0;
    }
    symbol.bytes = kSmallSymbolBytes;
    symbol.range = small_symbols;
    symbol.address = small_symbols->base() + small_symbols_used;
    small_symbols_used += kSmallSymbolBytes;
  }
  const auto made = static_cast<SymbolId>(symbols.size());
  const auto place = first_behind(symbol.address);
  symbols.push_back(std::move(symbol));
  symbols_by_address.insert(place, made);
  return made;
}

std::vector<SymbolId>::const_iterator GraphData::first_behind(std::uintptr_t address) const {
  return std::upper_bound(
      symbols_by_address.begin(), symbols_by_address.end(), address,
      [&](std::uintptr_t at, SymbolId symbol) { return at < symbols[symbol].address; });
}

const Symbol* GraphData::find_stand_in(std::uintptr_t address) const {
  const auto after = first_behind(address);
  if (after == symbols_by_address.begin()) return nullptr;
  const Symbol& symbol = symbols[*std::prev(after)];
  const std::uintptr_t offset = address - symbol.address;
  const bool is_inside =
      symbol.kind == SymbolKind::allocation ? offset <= symbol.bytes : offset == 0;
  return is_inside ? &symbol : nullptr;
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
  std::erase_if(data_.symbols_by_address, [&](SymbolId symbol) { return symbol >= symbols_; });
  data_.symbols.erase(data_.symbols.begin() + symbols_, data_.symbols.end());
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

Uses uses_of(const GraphData& data, const Part& part) {
  Uses uses;
  if (data.symbols.empty()) return uses;
  each_word(part, [&](std::uintptr_t word, std::size_t offset) {
    if (const Symbol* symbol = data.find_symbol(word))
      uses.push_back({offset, data.id_of(*symbol)});
  });
  return uses;
}

bool has_foreign_stand_in(const GraphData& data, const NodeData& node) {
  bool is_found = false;
  each_word(node.part, [&](std::uintptr_t word, std::size_t) {
    is_found = is_found || (!data.find_symbol(word) && AddressRange::is_stand_in(word));
  });
  return is_found;
}

std::vector<NodeId> last_nodes(const GraphData& data) {
  std::vector<bool> has_follower(data.nodes.size());
  for (const NodeData& node : data.nodes)
    for (const Edge& edge : node.deps) has_follower[edge.from] = true;
  std::vector<NodeId> last;
  for (const NodeId id : data.scopes[kRootScope].nodes)
    if (!has_follower[id]) last.push_back(id);
  return last;
}

}  // namespace attacca::graph
