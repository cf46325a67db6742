// graph.cpp: builds graphs. Each call checks its own arguments and appends to the graph's data.
// Rules about the whole graph are in validate.cpp.
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "graph/argument_checks.hpp"
#include "graph/conflicts.hpp"
#include "graph/data.hpp"
#include "graph/exec_core.hpp"
#include "graph/splice.hpp"
#include "graph/validate.hpp"

namespace attacca {

using namespace graph;

namespace {

NodeId append(GraphData& data, ScopeId scope, std::string name, Part&& part) {
  const auto id = static_cast<NodeId>(data.nodes.size());
  NodeData& node = data.nodes.emplace_back();
  node.name = std::move(name);
  node.scope = scope;
  node.place = static_cast<std::uint32_t>(data.scopes[scope].nodes.size());
  node.origin = data.id;
  node.part = std::move(part);
  data.scopes[scope].nodes.push_back(id);
  return id;
}

ScopeId append_scope(GraphData& data, NodeId parent, std::string label, bool is_body) {
  data.scopes.push_back(Scope{parent, std::move(label), is_body, {}});
  return static_cast<ScopeId>(data.scopes.size() - 1);
}

}  // namespace

Node::Node(GraphData& data, NodeId id) : data_(&data), graph_id_(data.nodes[id].origin), id_(id) {}

NodeData& Node::node_data() const {
  if (NodeData* node = data_->find(id_, graph_id_)) return *node;
  throw BadArgument(
      fmt::format("node number {} is no longer in graph '{}': the body it was added in threw, and "
                  "was taken back whole; add it again",
                  id_, data_->name));
}

const std::string& Node::name() const { return node_data().name; }

NodeKind Node::kind() const {
  struct Visitor {
    NodeKind operator()(const KernelPart&) const { return NodeKind::kernel; }
    NodeKind operator()(const CopyPart&) const { return NodeKind::copy; }
    NodeKind operator()(const FillPart&) const { return NodeKind::fill; }
    NodeKind operator()(const HostPart&) const { return NodeKind::host; }
    NodeKind operator()(const LibraryPart&) const { return NodeKind::library; }
    NodeKind operator()(const ChildPart&) const { return NodeKind::child; }
    NodeKind operator()(const AllocatePart&) const { return NodeKind::allocation; }
    NodeKind operator()(const FreePart&) const { return NodeKind::free; }
    NodeKind operator()(const ConditionalPart& part) const {
      if (part.kind == ConditionalKind::while_) return NodeKind::while_;
      return part.kind == ConditionalKind::switch_ ? NodeKind::switch_ : NodeKind::if_;
    }
  };
  return std::visit(Visitor{}, node_data().part);
}

void Node::add_edge(const Node& producer, EdgeKind kind) const {
  NodeData& node = node_data();
  const NodeData* found = data_->find(producer.id_, producer.graph_id_);
  if (!found)
    throw BadArgument(fmt::format(
        "'{}' of graph '{}' cannot follow '{}', which belongs to graph '{}' or to another copy of "
        "the same graph; an edge stays inside one graph",
        node.name, data_->name, producer.name(), producer.data_->name));
  const NodeData& from = *found;
  if (from.scope != node.scope)
    throw GraphError(Rule::edge_across_scopes, node.name,
                     fmt::format("{} '{}' cannot follow {} '{}', which is in another body or "
                                 "child; make the enclosing nodes follow one another",
                                 kind_name(node), node.name, kind_name(from), from.name));
  const auto same = std::find_if(node.deps.begin(), node.deps.end(),
                                 [&](const Edge& edge) { return edge.from == producer.id_; });
  if (same == node.deps.end())
    node.deps.push_back(Edge{producer.id_, kind});
  else if (kind == EdgeKind::full)
    same->kind = kind;
}

void Node::set_name(std::string name) const { node_data().name = std::move(name); }
void Node::set_priority(int priority) const { node_data().priority = priority; }
void Node::set_enabled(bool is_enabled) const { node_data().is_enabled = is_enabled; }

void Node::make_device_updatable(std::uint64_t& target) const {
  auto& kernel = std::get<KernelPart>(node_data().part);
  if (!kernel.is_device_updatable) {
    kernel.is_device_updatable = true;
    data_->symbols.add(SymbolKind::node, name(), 0, id_);
  }
  for (const Symbol& symbol : data_->symbols)
    if (symbol.kind == SymbolKind::node && symbol.owner == id_) target = symbol.address;
}

void Node::add_access(const void* first, std::size_t bytes, bool is_write) const {
  if (bytes == 0) return;
  if (!first)
    throw BadArgument(
        fmt::format("'{}' declares that it {} {} bytes at a null address; give it "
                    "the memory that its arguments point to",
                    name(), is_write ? "writes" : "reads", bytes));
  (void)node_data();  // it must still be there
  data_->accesses[id_].add({first, bytes, is_write});
}

Graph::Graph(const Device& device, std::string name)
    : owned_(std::make_unique<GraphData>(device, std::move(name))), data_(owned_.get()) {}

Graph::Graph(GraphData& data, std::uint32_t scope) : data_(&data), scope_(scope) {}

Graph::Graph(const Graph& other)
    : owned_(std::make_unique<GraphData>(*other.data_)), data_(owned_.get()), scope_(other.scope_) {
  data_->become_another();
}

Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph other) noexcept {
  std::swap(owned_, other.owned_);
  std::swap(data_, other.data_);
  std::swap(scope_, other.scope_);
  return *this;
}
Graph::~Graph() = default;

NodeId Graph::add_kernel(const KernelInfo& kernel, const Grid& grid, const void* args) {
  check_grid(kernel, grid);
  const auto* bytes = static_cast<const std::byte*>(args);
  return append(*data_, scope_, kernel.name,
                KernelPart{&kernel, grid, {bytes, bytes + kernel.args_size}, false});
}

CopyNode Graph::copy(void* to, const void* from, std::size_t bytes) {
  check_copy(to, from, bytes);
  return {*data_, append(*data_, scope_, "copy", CopyPart{to, from, bytes})};
}

CopyNode Graph::copy_2d(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows) {
  check_copy_2d(to, from, width_bytes, rows);
  return {*data_, append(*data_, scope_, "copy", copy_part(to, from, width_bytes, rows))};
}

FillNode Graph::fill(void* to, std::uint8_t value, std::size_t bytes) {
  check_fill(to, bytes);
  return {*data_, append(*data_, scope_, "fill", FillPart{to, value, bytes})};
}

PlainNode Graph::host(std::string name, std::function<void()> call) {
  if (!call) throw BadArgument(fmt::format("host call '{}' has no function", name));
  return {*data_, append(*data_, scope_, std::move(name), HostPart{std::move(call)})};
}

PlainNode Graph::library(std::string name, std::function<void(StreamRef)> enqueue) {
  if (!enqueue) throw BadArgument(fmt::format("library call '{}' has no function", name));
  return {*data_, append(*data_, scope_, std::move(name), LibraryPart{std::move(enqueue)})};
}

PlainNode Graph::child(std::string name, const Fill& fill) {
  if (!fill) throw BadArgument(fmt::format("child '{}' has no function", name));
  Rollback rollback(*data_);
  const NodeId id = append(*data_, scope_, std::move(name), ChildPart{});
  const ScopeId inner = append_scope(*data_, id, "", false);
  std::get<ChildPart>(data_->nodes[id].part).scope = inner;
  Graph inside(*data_, inner);
  fill(inside);
  rollback.keep();
  return {*data_, id};
}

PlainNode Graph::child(std::string name, const Graph& other) {
  if (!(other.device() == device()))
    throw GraphError(
        Rule::two_devices, name,
        fmt::format("child '{}' was built for {} and graph '{}' for {}: build both "
                    "for one device",
                    name, name_beside(other.device(), device()), data_->name, device().name()));
  if (other.data_ == data_)
    throw BadArgument(
        fmt::format("graph '{}' cannot be its own child; copy it first", data_->name));
  return child(std::move(name),
               [&](Graph& inside) { splice(*other.data_, *data_, inside.scope_); });
}

NodeId Graph::add_allocation(std::string name, std::size_t bytes, void*& address) {
  if (bytes == 0)
    throw BadArgument(fmt::format("allocation '{}' of 0 bytes; ask for at least one", name));
  const auto id = static_cast<NodeId>(data_->nodes.size());
  const SymbolId symbol = data_->symbols.add(SymbolKind::allocation, name, bytes, id);
  address = reinterpret_cast<void*>(data_->symbols[symbol].address);
  return append(*data_, scope_, std::move(name), AllocatePart{symbol});
}

PlainNode Graph::free(void* address) {
  const Symbol* symbol = data_->symbols.find(reinterpret_cast<std::uintptr_t>(address));
  std::string name = symbol ? fmt::format("free {}", symbol->name) : "free";
  return {*data_, append(*data_, scope_, std::move(name), FreePart{address})};
}

Condition Graph::condition(std::string name, unsigned initial) {
  const SymbolId id =
      data_->symbols.add(SymbolKind::condition, std::move(name), 0, scope_, initial);
  return Condition(data_->symbols[id].address, attacca::detail::HandleKind::unresolved);
}

PlainNode Graph::add_conditional(std::string name, int kind, Condition condition,
                                 const std::vector<Fill>& bodies) {
  const Symbol* symbol = data_->symbols.find(condition.target());
  if (!symbol || symbol->kind != SymbolKind::condition)
    throw BadArgument(
        fmt::format("'{}' looks at a condition that does not belong to graph '{}'; make one "
                    "with graph.condition(…)",
                    name, data_->name));
  const auto conditional = static_cast<ConditionalKind>(kind);
  const auto label = [&](std::size_t at) -> std::string {
    if (conditional == ConditionalKind::while_) return "body";
    if (conditional == ConditionalKind::switch_) return fmt::format("case {}", at);
    return at == 0 ? "then" : "else";
  };
  Rollback rollback(*data_);
  const NodeId id =
      append(*data_, scope_, std::move(name), ConditionalPart{conditional, condition.target(), {}});
  for (std::size_t at = 0; at < bodies.size(); ++at) {
    if (!bodies[at])
      throw BadArgument(fmt::format("the {} of {} '{}' has no function", label(at),
                                    kind_name(data_->nodes[id]), data_->nodes[id].name));
    const ScopeId inner = append_scope(*data_, id, label(at), true);
    std::get<ConditionalPart>(data_->nodes[id].part).bodies.push_back(inner);
    Graph inside(*data_, inner);
    bodies[at](inside);
  }
  rollback.keep();
  return {*data_, id};
}

PlainNode Graph::if_(std::string name, Condition condition, const Fill& then) {
  return add_conditional(std::move(name), static_cast<int>(ConditionalKind::if_), condition,
                         {then});
}
PlainNode Graph::if_(std::string name, Condition condition, const Fill& then,
                     const Fill& otherwise) {
  return add_conditional(std::move(name), static_cast<int>(ConditionalKind::if_), condition,
                         {then, otherwise});
}
PlainNode Graph::switch_(std::string name, Condition condition, const std::vector<Fill>& bodies) {
  if (bodies.empty())
    throw BadArgument(fmt::format("switch '{}' has no bodies; give it at least one", name));
  return add_conditional(std::move(name), static_cast<int>(ConditionalKind::switch_), condition,
                         bodies);
}
PlainNode Graph::while_(std::string name, Condition condition, const Fill& body) {
  return add_conditional(std::move(name), static_cast<int>(ConditionalKind::while_), condition,
                         {body});
}
PlainNode Graph::while_(std::string name, const std::function<void(Graph&, Condition)>& body) {
  if (!body) throw BadArgument(fmt::format("the body of while '{}' has no function", name));
  Rollback rollback(*data_);
  const Condition again = condition(name, 1);
  const PlainNode loop =
      while_(std::move(name), again, [&](Graph& inside) { body(inside, again); });
  rollback.keep();
  return loop;
}

void Graph::derive_edges() { graph::derive_edges(*data_, scope_); }

std::vector<GraphError> Graph::problems() const {
  return find_problems(*data_, Target::host_launch);
}
std::vector<GraphError> Graph::device_problems() const {
  return find_problems(*data_, Target::device_launch);
}

Exec Graph::instantiate() const {
  return Exec(std::make_unique<ExecCore>(*this, Target::host_launch));
}
DeviceExec Graph::instantiate_for_device() const {
  return DeviceExec(std::make_unique<ExecCore>(*this, Target::device_launch));
}

const std::string& Graph::name() const { return data_->name; }
Device Graph::device() const { return data_->device; }
std::size_t Graph::node_count() const { return data_->nodes.size(); }

std::vector<Node> Access::last_nodes(const Graph& graph) {
  std::vector<Node> nodes;
  for (const NodeId id : graph::last_nodes(*graph.data_, graph.scope_))
    nodes.emplace_back(*graph.data_, id);
  return nodes;
}

std::vector<Node> Graph::nodes() const {
  std::vector<Node> nodes;
  for (const NodeId id : data_->scopes[scope_].nodes) nodes.emplace_back(*data_, id);
  return nodes;
}

Cost Graph::cost() const {
  Cost sum;
  for (const NodeData& node : data_->nodes)
    if (const auto* kernel = std::get_if<KernelPart>(&node.part)) {
      const Cost cost = kernel->info->cost(kernel->args.data());
      sum.flops += cost.flops;
      sum.bytes += cost.bytes;
    }
  return sum;
}

}  // namespace attacca
