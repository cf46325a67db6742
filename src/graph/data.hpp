// data.hpp: the graph as plain data: one flat list of nodes, one of scopes, one of symbols.
// A node's id is its place in the list. A scope is the graph itself, a child or a body.
#pragma once

#include <attacca/graph.hpp>
#include <attacca/l2.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/inline_vector.hpp"
#include "graph/access.hpp"
#include "graph/symbols.hpp"

namespace attacca::graph {

using ScopeId = std::uint32_t;
inline constexpr ScopeId kRootScope = 0;
inline constexpr std::uint32_t kNone = 0xffffffffu;

struct Edge {
  NodeId from;
  EdgeKind kind;
  friend bool operator==(const Edge&, const Edge&) = default;
};

using Arguments = InlineVector<std::byte, 32>;

struct KernelPart {
  const KernelInfo* info;
  Grid grid;
  Arguments args;
  bool is_device_updatable = false;
  friend bool operator==(const KernelPart&, const KernelPart&) = default;
};
struct CopyPart {
  void* to;
  const void* from;
  std::size_t bytes;  // of one row
  std::size_t rows = 1;
  std::size_t to_pitch = 0;  // pitches are used for several rows only
  std::size_t from_pitch = 0;
  friend bool operator==(const CopyPart&, const CopyPart&) = default;
};
struct FillPart {
  void* to;
  std::uint8_t value;
  std::size_t bytes;
  friend bool operator==(const FillPart&, const FillPart&) = default;
};
struct HostPart {
  std::function<void()> call;
};
struct LibraryPart {
  std::function<void(StreamRef)> enqueue;
};
struct ChildPart {
  ScopeId scope;
};
struct AllocatePart {
  SymbolId symbol;
};
struct FreePart {
  void* address;
};
enum class ConditionalKind : std::uint8_t { if_, while_, switch_ };
struct ConditionalPart {
  ConditionalKind kind;
  std::uint64_t condition;  // a symbol's address, or whatever the caller passed
  std::vector<ScopeId> bodies;
};

using Part = std::variant<KernelPart, CopyPart, FillPart, HostPart, LibraryPart, ChildPart,
                          AllocatePart, FreePart, ConditionalPart>;

/// The driver's node behind an adopted kernel. Our node copies its attributes.
struct AdoptedKernel {
  std::shared_ptr<void> graph;  // keeps the node
  void* node;
};

struct NodeData {
  std::string name;
  ScopeId scope;
  std::uint32_t place;  // in its scope's list
  std::uint64_t
      origin;  // id of the graph it was added to; a handle names a node by this and its id
  InlineVector<Edge, 2> deps;
  Part part;
  int priority = 0;
  bool is_enabled = true;
};

struct Scope {
  NodeId parent = kNone;  // the child or conditional that holds this scope
  std::string label;      // "then", "else", "case 2", "body"; empty for the root
  bool is_body = false;   // of a conditional, rather than of a child
  std::vector<NodeId> nodes;
};

struct GraphData {
  GraphData(Device on, std::string called);

  std::uint64_t id;  // unique, also among copies
  std::string name;
  Device device;
  std::vector<NodeData> nodes;
  std::vector<Scope> scopes;
  SymbolTable symbols;
  std::map<NodeId, L2Window> l2_windows;           // for the few kernels that have one
  std::vector<std::shared_ptr<const void>> keeps;  // owned here because launches use them
  std::map<NodeId, AdoptedKernel> adopted_kernels;
  std::map<NodeId, device::SiteRef> launch_sites;  // of kernels whose launches are recorded
  std::map<NodeId, Accesses> accesses;  // declared for a node; kernels may declare their own

  /// Null unless the node was added to this graph, or to the original before this copy was made.
  NodeData* find(NodeId node, std::uint64_t origin) {
    return node < nodes.size() && nodes[node].origin == origin ? &nodes[node] : nullptr;
  }
  /// Call it on a copy, which grows on its own from then on.
  void become_another();
  /// Null where the node has none.
  const L2Window* find_l2_window(const NodeData& node) const;
  /// The body of the innermost while around a scope, the scope itself included.
  std::optional<ScopeId> loop_around(ScopeId scope) const;
};

/// Removes everything added to a graph since this was made, unless `keep` is called.
class Rollback {
 public:
  explicit Rollback(GraphData& data);
  ~Rollback();
  Rollback(const Rollback&) = delete;
  void keep() { is_kept_ = true; }

 private:
  GraphData& data_;
  NodeId nodes_;
  std::size_t scopes_;
  SymbolId symbols_;
  bool is_kept_ = false;
};

const char* kind_name(const NodeData& node);
/// The scopes inside a child or conditional.
std::vector<ScopeId> insides_of(const NodeData& node);
/// The stored form of a copy: contiguous rows become one.
CopyPart copy_part(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows);

/// Whether the host or device code launches a graph.
enum class Target : std::uint8_t { host_launch, device_launch };

/// The nodes of a scope that no other node depends on.
std::vector<NodeId> last_nodes(const GraphData& data, ScopeId scope);

}  // namespace attacca::graph
