// plan.hpp: a graph compiled for the host executor: successors instead of dependencies, arguments
// with their symbols resolved, one array per kind of thing. run.hpp runs it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "graph/data.hpp"
#include "graph/lower.hpp"

namespace attacca::host {

using graph::GraphData;

/// Memory of an allocation node or a pool, aligned as cudaMalloc aligns it.
struct FreeBlock {
  static constexpr std::size_t kAlignment = 256;
  void operator()(std::byte* block) const noexcept {
    ::operator delete(block, std::align_val_t(kAlignment));
  }
};
using Block = std::unique_ptr<std::byte, FreeBlock>;
inline Block make_block(std::size_t bytes) {
  return Block(
      static_cast<std::byte*>(::operator new(bytes, std::align_val_t(FreeBlock::kAlignment))));
}

struct PlanNode {
  std::string name;
  graph::Part part{graph::ChildPart{}};  // with symbols resolved; a kernel's are in args and grid
  std::byte* args = nullptr;             // kernel: resolved, in the plan's storage
  Grid grid;                             // kernel
  bool is_enabled = true;
  bool has_programmatic_producer = false;
  unsigned* condition = nullptr;         // conditional
  std::vector<std::uint32_t> bodies;     // conditional: indices into Plan::scopes
  attacca::detail::HostNodeSlot slot{};  // a DeviceNode points to it
};

struct PlanScope {
  std::vector<std::uint32_t> order;  // indices into Plan::nodes, producers first
  std::vector<std::uint32_t> roots;
  bool is_sequence = false;  // each node follows the one before it
};

/// REQUIRES: at most one run at a time. Not copyable: slots and arguments point inside.
struct Plan {
  explicit Plan(const GraphData& data);
  /// Reads the parameters of a node again.
  void read_parameters(const GraphData& data, NodeId id);
  void reset_conditions();
  std::size_t bytes() const;
  PlanNode& node_of(NodeId id) { return nodes[index_of[id]]; }

  std::string name;
  bool has_updatable_nodes = false;
  std::vector<PlanNode> nodes;
  std::vector<PlanScope> scopes;          // [0] is the root
  std::vector<std::uint32_t> index_of;    // NodeId to index in nodes; kNone for children
  std::vector<std::uint32_t> successors;  // of node n: [first_successor[n], first_successor[n + 1])
  std::vector<std::uint32_t> first_successor;
  std::vector<std::uint32_t> dependency_count;
  std::unique_ptr<std::atomic<std::uint32_t>[]> pending;
  std::vector<unsigned> conditions;  // by symbol
  std::vector<unsigned> initial_conditions;
  std::unique_ptr<std::byte[]> args_storage;
  std::vector<Block> blocks;  // allocation nodes

 private:
  using Consumers = std::vector<std::vector<std::uint32_t>>;  // by node

  /// Memory for conditions and allocations.
  void make_symbols(const GraphData& data);
  /// Nodes and scopes, without parameters. Returns which nodes consume each node.
  Consumers add_scopes(const GraphData& data, const graph::Lowered& lowered);
  void add_node(const graph::NodeData& from, const graph::LoweredNode& lowered,
                const std::vector<std::uint32_t>& scope_at, PlanScope& scope, Consumers& consumers);
  void link_successors(const Consumers& consumers);
  /// Room for each kernel's arguments.
  void place_arguments(const GraphData& data);
  std::uintptr_t address_of(const GraphData& data, graph::SymbolId id);
  std::vector<std::byte*> allocations_;  // by symbol
};

}  // namespace attacca::host
