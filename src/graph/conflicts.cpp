// conflicts.cpp: finds conflicts in one sweep over the sorted ends of all ranges. Between two ends
// the same nodes are active, and only neighbours in the order need to be compared.
#include "graph/conflicts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "graph/lower.hpp"

namespace attacca::graph {

namespace {

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

void add_rows(NodeId node, const void* data, std::size_t pitch, const CopyPart& copy, bool is_write,
              std::vector<Touch>& to) {
  for (std::size_t row = 0; row < copy.rows; ++row) {
    const std::uintptr_t first = number(data) + row * pitch;
    to.push_back({first, first + copy.bytes, node, is_write});
  }
}

/// Allocating and freeing count as writes of the whole allocation.
void add_memory_nodes(const GraphData& data, NodeId id, std::vector<Touch>& to) {
  const Symbol* symbol = nullptr;
  if (const auto* allocate = std::get_if<AllocatePart>(&data.nodes[id].part))
    symbol = &data.symbols[allocate->symbol];
  else if (const auto* free = std::get_if<FreePart>(&data.nodes[id].part))
    symbol = data.symbols.find(number(free->address));
  if (symbol && symbol->kind == SymbolKind::allocation)
    to.push_back({symbol->address, symbol->address + symbol->bytes, id, true});
}

/// The touches of a node and of every node inside it.
void add_all(const GraphData& data, NodeId id, std::vector<Touch>& to) {
  add_touches(data, id, to);
  add_memory_nodes(data, id, to);
  for (const ScopeId inside : insides_of(data.nodes[id]))
    for (const NodeId inner : data.scopes[inside].nodes) add_all(data, inner, to);
}

}  // namespace

bool has_declared_accesses(const GraphData& data) {
  if (!data.accesses.empty()) return true;
  return std::any_of(data.nodes.begin(), data.nodes.end(), [](const NodeData& node) {
    const auto* kernel = std::get_if<KernelPart>(&node.part);
    return kernel && kernel->info->accesses;
  });
}

void add_declared(const GraphData& data, NodeId node, std::vector<Touch>& to) {
  const auto add = [&](const Accesses& accesses) {
    for (const Accesses::Range& range : accesses.ranges())
      to.push_back({number(range.first), number(range.first) + range.bytes, node, range.is_write});
  };
  if (const auto declared = data.accesses.find(node); declared != data.accesses.end())
    add(declared->second);
  if (const auto* kernel = std::get_if<KernelPart>(&data.nodes[node].part);
      kernel && kernel->info->accesses)
    add(kernel->info->accesses(kernel->args.data()));
}

void add_touches(const GraphData& data, NodeId node, std::vector<Touch>& to) {
  add_declared(data, node, to);
  if (const auto* copy = std::get_if<CopyPart>(&data.nodes[node].part)) {
    add_rows(node, copy->from, copy->from_pitch, *copy, false, to);
    add_rows(node, copy->to, copy->to_pitch, *copy, true, to);
  } else if (const auto* fill = std::get_if<FillPart>(&data.nodes[node].part)) {
    to.push_back({number(fill->to), number(fill->to) + fill->bytes, node, true});
  }
}

void each_conflict(std::vector<Touch> touches, const std::vector<std::uint32_t>& rank,
                   const std::function<void(const Conflict&)>& report) {
  struct End {
    std::uintptr_t address;
    std::uint32_t touch;
    bool is_first;
  };
  std::vector<End> ends;
  ends.reserve(2 * touches.size());
  for (std::uint32_t at = 0; at < touches.size(); ++at) {
    ends.push_back({touches[at].first, at, true});
    ends.push_back({touches[at].end, at, false});
  }
  std::sort(ends.begin(), ends.end(),
            [](const End& a, const End& b) { return a.address < b.address; });

  struct Active {
    NodeId node;
    unsigned reads = 0;
    unsigned writes = 0;
  };
  std::map<std::uint32_t, Active> active;  // by rank
  std::size_t writers = 0;
  std::unordered_set<std::uint64_t> reported;
  std::vector<const Active*> readers;  // since the last writer

  const auto compare_active = [&](std::uintptr_t first, std::uintptr_t end) {
    const Active* writer = nullptr;
    readers.clear();
    const auto pair = [&](const Active& earlier, const Active& later) {
      if (!reported.insert(std::uint64_t{earlier.node} << 32 | later.node).second) return;
      report(
          {earlier.node, later.node, first, end - first, earlier.writes != 0, later.writes != 0});
    };
    for (const auto& [at, now] : active) {
      if (now.writes == 0) {
        if (writer) pair(*writer, now);
        readers.push_back(&now);
        continue;
      }
      for (const Active* reader : readers) pair(*reader, now);
      if (readers.empty() && writer) pair(*writer, now);
      writer = &now;
      readers.clear();
    }
  };

  for (std::size_t at = 0; at < ends.size();) {
    const std::uintptr_t address = ends[at].address;
    for (; at < ends.size() && ends[at].address == address; ++at) {
      const Touch& touch = touches[ends[at].touch];
      const auto found = active.try_emplace(rank[touch.node], Active{touch.node}).first;
      unsigned& count = touch.is_write ? found->second.writes : found->second.reads;
      if (ends[at].is_first) {
        if (count++ == 0 && touch.is_write) ++writers;
      } else {
        if (--count == 0 && touch.is_write) --writers;
        if (found->second.reads == 0 && found->second.writes == 0) active.erase(found);
      }
    }
    if (writers != 0 && active.size() > 1) compare_active(address, ends[at].address);
  }
}

namespace {

void derive_edges_of(GraphData& data, ScopeId scope, std::vector<std::uint32_t>& rank) {
  // Existing edges decide first; between other nodes, the one added first goes first.
  const std::vector<NodeId> order = topological_order(data, scope, false);
  if (order.size() != data.scopes[scope].nodes.size()) return;  // a cycle, which `validate` names
  std::vector<Touch> touches;
  for (std::uint32_t at = 0; at < order.size(); ++at) {
    const NodeId id = order[at];
    rank[id] = at;
    const std::size_t before = touches.size();
    add_all(data, id, touches);
    // A child or conditional touches whatever the nodes inside it touch.
    for (std::size_t touch = before; touch < touches.size(); ++touch) touches[touch].node = id;
  }
  each_conflict(std::move(touches), rank, [&](const Conflict& conflict) {
    auto& deps = data.nodes[conflict.later].deps;
    if (std::none_of(deps.begin(), deps.end(),
                     [&](const Edge& edge) { return edge.from == conflict.earlier; }))
      deps.push_back({conflict.earlier, EdgeKind::full});
  });
  for (const NodeId id : data.scopes[scope].nodes)
    for (const ScopeId inside : insides_of(data.nodes[id])) derive_edges_of(data, inside, rank);
}

}  // namespace

void derive_edges(GraphData& data, ScopeId scope) {
  std::vector<std::uint32_t> rank(data.nodes.size());
  derive_edges_of(data, scope, rank);
}

std::string range_text(const GraphData& data, std::uintptr_t first, std::size_t bytes) {
  const Symbol* symbol = data.symbols.find(first);
  if (symbol && symbol->kind == SymbolKind::allocation)
    return fmt::format("bytes {} to {} of allocation '{}'", first - symbol->address,
                       first - symbol->address + bytes, symbol->name);
  return fmt::format("{} bytes at {:#x}", bytes, first);
}

}  // namespace attacca::graph
