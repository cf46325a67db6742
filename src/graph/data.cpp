// data.cpp: symbols and the addresses that stand for them.
#include "graph/data.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

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

namespace {

/// Every range there is, by its first address.
struct Ranges {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> bytes_at;
  std::atomic<std::size_t> count{0};
};
Ranges& ranges() {
  static auto& instance = *new Ranges;  // ranges of static graphs end after it would
  return instance;
}

/// Calls `look(word, offset)` for every word of a node that may be an address.
template <class F>
void each_word(const NodeData& node, F look) {
  if (const auto* kernel = std::get_if<KernelPart>(&node.part)) {
    for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= kernel->args.size();
         at += alignof(std::uintptr_t)) {
      std::uintptr_t word;
      std::memcpy(&word, kernel->args.data() + at, sizeof word);
      look(word, at);
    }
  } else if (const auto* copy = std::get_if<CopyPart>(&node.part)) {
    look(reinterpret_cast<std::uintptr_t>(copy->to), 0);
    look(reinterpret_cast<std::uintptr_t>(copy->from), 1);
  } else if (const auto* fill = std::get_if<FillPart>(&node.part)) {
    look(reinterpret_cast<std::uintptr_t>(fill->to), 0);
  }
}

}  // namespace

AddressRange::AddressRange(std::size_t bytes) : bytes_(bytes == 0 ? 1 : bytes) {
  void* address =
      ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    throw BadArgument(fmt::format(
        "cannot reserve {} bytes of addresses for an allocation node: {}; allocate less", bytes,
        std::strerror(errno)));
  base_ = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(ranges().mutex);
  ranges().bytes_at.emplace(base_, bytes_);
  ranges().count.fetch_add(1);
}

AddressRange::~AddressRange() {
  {
    const std::lock_guard lock(ranges().mutex);
    ranges().bytes_at.erase(base_);
    ranges().count.fetch_sub(1);
  }
  ::munmap(reinterpret_cast<void*>(base_), bytes_);
}

bool AddressRange::is_stand_in(std::uintptr_t address) {
  if (ranges().count.load() == 0) return false;
  const std::lock_guard lock(ranges().mutex);
  const auto after = ranges().bytes_at.upper_bound(address);
  if (after == ranges().bytes_at.begin()) return false;
  const auto& [base, bytes] = *std::prev(after);
  return address - base < bytes;
}

GraphData::GraphData(Device on, std::string called)
    : id(next_graph_id()), name(std::move(called)), device(std::move(on)) {
  nodes.reserve(kFirstNodes);
  scopes.emplace_back().nodes.reserve(kFirstNodes);
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
  symbols.push_back(std::move(symbol));
  return static_cast<SymbolId>(symbols.size() - 1);
}

const Symbol* GraphData::find_symbol(std::uintptr_t address) const {
  for (const Symbol& symbol : symbols)
    if (address >= symbol.address && address - symbol.address < symbol.bytes) return &symbol;
  return nullptr;
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

std::vector<Use> uses_of(const GraphData& data, const NodeData& node) {
  std::vector<Use> uses;
  if (data.symbols.empty()) return uses;
  each_word(node, [&](std::uintptr_t word, std::size_t offset) {
    if (const Symbol* symbol = data.find_symbol(word))
      uses.push_back({offset, static_cast<SymbolId>(symbol - data.symbols.data())});
  });
  return uses;
}

bool has_foreign_stand_in(const GraphData& data, const NodeData& node) {
  bool is_found = false;
  each_word(node, [&](std::uintptr_t word, std::size_t) {
    is_found = is_found || (AddressRange::is_stand_in(word) && !data.find_symbol(word));
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
