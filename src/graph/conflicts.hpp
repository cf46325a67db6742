// conflicts.hpp: which nodes of a graph touch the same bytes, one of them writing. What nodes touch
// comes from declarations (attacca/accesses.hpp); copies and fills say it themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/data.hpp"

namespace attacca::graph {

/// Bytes [first, end).
struct Touch {
  std::uintptr_t first;
  std::uintptr_t end;
  NodeId node;
  bool is_write;
};

/// Two nodes that must be ordered, and the first bytes that both touch.
struct Conflict {
  NodeId earlier;
  NodeId later;
  std::uintptr_t first;
  std::size_t bytes;
  bool earlier_writes;
  bool later_writes;
};

/// Whether any node of the graph declares what it touches, or runs a kernel that does.
bool has_declared_accesses(const GraphData& data);

/// What the node was declared to touch, by itself or by its kernel's `accesses`.
void add_declared(const GraphData& data, NodeId node, std::vector<Touch>& to);
/// The same, and what a copy or fill touches by its nature.
void add_touches(const GraphData& data, NodeId node, std::vector<Touch>& to);

/// Calls `report` once for each pair of conflicting nodes that follow one another by `rank`, which
/// has a number of its own for each node: enough pairs that when each of them is ordered, all
/// conflicts are.
void each_conflict(std::vector<Touch> touches, const std::vector<std::uint32_t>& rank,
                   const std::function<void(const Conflict&)>& report);

/// Adds an edge for each conflict between nodes of a scope, insides included, and of all scopes
/// inside it. The node added first goes first, unless edges already order them the other way. A
/// scope with a cycle is left as it is.
void derive_edges(GraphData& data, ScopeId scope);

/// "64 bytes at 0x7f00", or "bytes 0 to 64 of allocation 'x'".
std::string range_text(const GraphData& data, std::uintptr_t first, std::size_t bytes);

}  // namespace attacca::graph
