// conflicts.hpp: finds nodes that touch the same bytes, where at least one of them writes. Kernels
// declare their accesses (attacca/accesses.hpp); those of copies and fills are known.
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

/// Whether any node of the graph, or the kernel of any node, declares accesses.
bool has_declared_accesses(const GraphData& data);

/// Adds the accesses declared for the node, or by its kernel's `accesses`.
void add_declared(const GraphData& data, NodeId node, std::vector<Touch>& to);
/// Adds those, and the accesses of a copy or fill.
void add_touches(const GraphData& data, NodeId node, std::vector<Touch>& to);

/// Calls `report` once for each pair of conflicting nodes that are neighbours by `rank`. Once every
/// reported pair is ordered, all conflicts are. REQUIRES: `rank` gives each node a number of its
/// own.
void each_conflict(std::vector<Touch> touches, const std::vector<std::uint32_t>& rank,
                   const std::function<void(const Conflict&)>& report);

/// Adds an edge for each conflict between two nodes of a scope, and does the same in all scopes
/// inside it. A child or conditional counts as one node with everything inside it. The node added
/// first goes first, unless edges already order them the other way. A scope with a cycle is left as
/// it is.
void derive_edges(GraphData& data, ScopeId scope);

/// "64 bytes at 0x7f00", or "bytes 0 to 64 of allocation 'x'".
std::string range_text(const GraphData& data, std::uintptr_t first, std::size_t bytes);

}  // namespace attacca::graph
