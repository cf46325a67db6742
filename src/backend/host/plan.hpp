// plan.hpp: a graph compiled for the host executor: successors instead of dependencies, settings
// with their symbols resolved, one array per kind of thing. run.hpp runs it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "backend/host/settings.hpp"
#include "graph/data.hpp"
#include "graph/executor.hpp"
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
/// At least one byte. Throws DeviceError, with the size, where the host has no room.
Block make_block(std::size_t bytes);

/// What no update changes in a node.
struct PlanNode {
  std::string name;
  bool has_programmatic_producer = false;
  device::SiteRef site = {};             // that records its launches
  std::vector<std::uint32_t> bodies;     // conditional: indices into Plan::scopes
  attacca::detail::HostNodeSlot slot{};  // a DeviceNode points to it
};

struct PlanScope {
  std::vector<std::uint32_t> order;  // indices into Plan::nodes, producers first
  std::vector<std::uint32_t> roots;
  bool is_sequence = false;  // each node follows the one before it
};

/// REQUIRES: at most one run at a time. Not copyable: slots and settings point inside.
struct Plan {
  explicit Plan(const GraphData& data);
  /// Reads changed nodes again. Launches already made keep the settings they were made with.
  /// REQUIRES: no launch has yet to end where device code changes nodes.
  void apply(const GraphData& data, const graph::Changes& changes);
  void reset_conditions();
  std::size_t bytes() const;

  std::string name;
  bool has_updatable_nodes = false;
  std::vector<PlanNode> nodes;
  VersionedSettings settings;             // by index in nodes
  std::vector<PlanScope> scopes;          // [0] is the root
  std::vector<std::uint32_t> index_of;    // NodeId to index in nodes; kNone for children
  std::vector<std::uint32_t> successors;  // of node n: [first_successor[n], first_successor[n + 1])
  std::vector<std::uint32_t> first_successor;
  std::vector<std::uint32_t> dependency_count;
  std::unique_ptr<std::atomic<std::uint32_t>[]> pending;
  std::vector<unsigned> conditions;  // by symbol
  std::vector<unsigned> initial_conditions;
  std::vector<Block> blocks;  // allocation nodes

 private:
  using Consumers = std::vector<std::vector<std::uint32_t>>;  // by node

  /// Memory for conditions and allocations.
  void make_symbols(const GraphData& data);
  /// Nodes and scopes, without settings. Returns which nodes consume each node.
  Consumers add_scopes(const GraphData& data, const graph::Lowered& lowered);
  void add_node(const GraphData& data, const graph::LoweredNode& lowered,
                const std::vector<std::uint32_t>& scope_at, PlanScope& scope, Consumers& consumers);
  void link_successors(const Consumers& consumers);
  void read_part(const GraphData& data, NodeId id, Settings& into);
  /// Makes the slot of a kernel point to its newest settings.
  void point_slot(std::uint32_t index);
  std::uintptr_t address_of(const GraphData& data, graph::SymbolId id);
  std::vector<std::byte*> allocations_;  // by symbol
};

}  // namespace attacca::host
