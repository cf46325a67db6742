// graph.hpp: a graph as data. Nodes, edges and control flow are recorded here; nothing runs and no
// driver is called until `instantiate` (exec.hpp), which validates first.
#pragma once

#include <attacca/cuda_kernel.hpp>
#include <attacca/device.hpp>
#include <attacca/error.hpp>
#include <attacca/handles.hpp>
#include <attacca/kernel.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace attacca {

namespace graph {
struct GraphData;
struct NodeData;
}  // namespace graph
class Exec;
class DeviceExec;
struct L2Window;

using NodeId = std::uint32_t;

/// full: the consumer starts when the producer has ended. programmatic (kernel to kernel): it may
/// start earlier, and must call `wait_for_producers` before it reads what the producer wrote.
enum class EdgeKind : std::uint8_t { full, programmatic };

enum class NodeKind : std::uint8_t {
  kernel,
  copy,
  fill,
  host,
  library,
  child,
  allocation,
  free,
  if_,
  while_,
  switch_,
};

/// A node of a graph. A cheap value, usable while the graph it came from lives. After that it still
/// names the node to an Exec made from that graph. It also names the node in copies of the graph
/// that were made after the node was added.
class Node {
 public:
  NodeId id() const { return id_; }
  const std::string& name() const;
  NodeKind kind() const;
  /// The graph that the node was added to. Together with `id` it identifies the node.
  std::uint64_t graph_id() const { return graph_id_; }

  Node(graph::GraphData& data, NodeId id);

 protected:
  friend struct graph::Access;
  void add_edge(const Node& producer, EdgeKind kind) const;
  void set_name(std::string name) const;
  void set_priority(int priority) const;
  void set_enabled(bool is_enabled) const;
  void set_l2_window(const L2Window& window) const;
  void make_device_updatable(std::uint64_t& target) const;
  graph::NodeData& node_data() const;
  void add_access(const void* first, std::size_t bytes, bool is_write) const;

  graph::GraphData* data_;
  std::uint64_t graph_id_;
  NodeId id_;
};

/// The chainable part of a node handle; `Self` is the handle's own type.
template <class Self>
class NodeOf : public Node {
 public:
  using Node::Node;
  Self after(const Node& producer) const { return add_edge(producer, EdgeKind::full), self(); }
  template <class... Producers>
  Self after(const Node& first, const Producers&... rest) const {
    add_edge(first, EdgeKind::full);
    return after(rest...);
  }
  Self after(const std::vector<Node>& producers) const {
    for (const Node& producer : producers) add_edge(producer, EdgeKind::full);
    return self();
  }
  Self named(std::string name) const { return set_name(std::move(name)), self(); }
  /// Declares the memory that the node reads and writes, for derive_edges and the check of
  /// unordered accesses (accesses.hpp). For a child or conditional, declare everything inside it.
  template <class T>
  Self reads(std::span<T> values) const {
    return add_access(values.data(), values.size_bytes(), false), self();
  }
  template <class T>
  Self writes(std::span<T> values) const {
    static_assert(!std::is_const_v<T>, "a node cannot write what is const");
    return add_access(values.data(), values.size_bytes(), true), self();
  }

 protected:
  Self self() const { return static_cast<const Self&>(*this); }
};

/// Any node but a kernel, copy or fill.
class PlainNode : public NodeOf<PlainNode> {
 public:
  using NodeOf::NodeOf;
};

/// A node that can be switched off: kernel, copy, fill.
template <class Self>
class SwitchableNode : public NodeOf<Self> {
 public:
  using NodeOf<Self>::NodeOf;
  Self enabled(bool is_enabled) const { return this->set_enabled(is_enabled), this->self(); }
};

class CopyNode : public SwitchableNode<CopyNode> {
 public:
  using SwitchableNode::SwitchableNode;
};

class FillNode : public SwitchableNode<FillNode> {
 public:
  using SwitchableNode::SwitchableNode;
};

template <class ArgsType>
class KernelNode : public SwitchableNode<KernelNode<ArgsType>> {
 public:
  using Args = ArgsType;
  using SwitchableNode<KernelNode>::SwitchableNode;
  KernelNode after_programmatic(const Node& producer) const {
    this->add_edge(producer, EdgeKind::programmatic);
    return *this;
  }
  /// Higher runs first where there is a choice.
  KernelNode priority(int value) const { return this->set_priority(value), *this; }
  /// Runs it with a window of L2 (l2.hpp), as an L2Guard does for the kernels of a stream. The
  /// memory must not be the graph's own, and an L2SetAside for it must outlive the graph.
  KernelNode l2_window(const L2Window& window) const { return this->set_l2_window(window), *this; }
  /// Lets a kernel of this graph change the node; put the result among that kernel's arguments.
  DeviceNode<Args> device_updatable() const {
    std::uint64_t target = 0;
    this->make_device_updatable(target);
    return DeviceNode<Args>(target);
  }
};

/// A plain CUDA kernel; see cuda_kernel.hpp.
template <class... P>
class CudaKernelNode : public SwitchableNode<CudaKernelNode<P...>> {
 public:
  using SwitchableNode<CudaKernelNode>::SwitchableNode;
  CudaKernelNode after_programmatic(const Node& producer) const {
    this->add_edge(producer, EdgeKind::programmatic);
    return *this;
  }
  CudaKernelNode priority(int value) const { return this->set_priority(value), *this; }
  CudaKernelNode l2_window(const L2Window& window) const {
    return this->set_l2_window(window), *this;
  }
};

/// Memory that lives inside one launch of a graph, from its node to the one that frees it or to
/// the launch's end. `data` is a stand-in for the address: use it in arguments, copies and fills
/// (offsets into it too), never on the host.
template <class T>
class Allocation : public NodeOf<Allocation<T>> {
 public:
  Allocation(graph::GraphData& data, NodeId id, void* address, std::size_t count)
      : NodeOf<Allocation>(data, id), address_(address), count_(count) {}
  T* data() const { return static_cast<T*>(address_); }
  std::span<T> span() const { return {data(), count_}; }

 private:
  void* address_;
  std::size_t count_;
};

/// A graph under construction, or the body of a conditional being filled. Not thread-safe.
/// Copying copies the data; handles of the original name the copy's nodes too. If a function that
/// fills a child or a body throws, everything added since the call is removed.
class Graph {
 public:
  explicit Graph(const Device& device, std::string name = "graph");
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph) noexcept;
  ~Graph();

  using Fill = std::function<void(Graph&)>;

  template <class Args>
  KernelNode<Args> kernel(const Kernel<Args>& kernel, const Grid& grid,
                          const std::type_identity_t<Args>& args) {
    return {*data_, add_kernel(kernel.info(), grid, &args)};
  }
  template <class... P>
  CudaKernelNode<P...> kernel(const CudaKernel<P...>& kernel, const Grid& grid,
                              const std::type_identity_t<P>&... args) {
    const detail::PackedParameters<P...> packed(args...);
    return {*data_, add_kernel(kernel.info(), grid, packed.data())};
  }
  CopyNode copy(void* to, const void* from, std::size_t bytes);
  /// The spans must have the same size.
  template <class T>
  CopyNode copy(std::span<T> to, std::span<const std::type_identity_t<T>> from) {
    static_assert(std::is_trivially_copyable_v<T>);
    detail::check_same_count(to.size(), from.size());
    return copy(to.data(), from.data(), to.size_bytes());
  }
  /// `rows` rows of `width_bytes` bytes. A pitch is at least the width.
  CopyNode copy_2d(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows);
  /// Sets `bytes` bytes to `value`.
  FillNode fill(void* to, std::uint8_t value, std::size_t bytes);
  /// Sets every byte to `value`.
  template <class T>
  FillNode fill(std::span<T> to, std::uint8_t value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return fill(to.data(), value, to.size_bytes());
  }
  PlainNode host(std::string name, std::function<void()> call);
  /// A function that enqueues on the stream it is given. CUDA captures it when the graph is
  /// instantiated; the host runs it at each launch. It must enqueue the same work every time.
  PlainNode library(std::string name, std::function<void(StreamRef)> enqueue);
  /// A graph inside this one, built in place.
  PlainNode child(std::string name, const Fill& fill);
  /// A copy of another graph inside this one. Handles of `other` do not name the copy's nodes.
  PlainNode child(std::string name, const Graph& other);

  template <class T>
  Allocation<T> allocate(std::string name, std::size_t count) {
    void* address = nullptr;
    const NodeId id =
        add_allocation(std::move(name), detail::array_bytes(count, sizeof(T)), address);
    return {*data_, id, address, count};
  }
  /// Frees memory from `allocate`, by its stand-in address.
  PlainNode free(void* address);
  template <class T>
  PlainNode free(const Allocation<T>& allocation) {
    return free(static_cast<void*>(allocation.data())).after(allocation);
  }

  /// A value for one conditional of this graph to look at, `initial` at each launch.
  Condition condition(std::string name, unsigned initial = 0);
  PlainNode if_(std::string name, Condition condition, const Fill& then);
  PlainNode if_(std::string name, Condition condition, const Fill& then, const Fill& otherwise);
  /// Runs body number `value`; a value out of range runs nothing.
  PlainNode switch_(std::string name, Condition condition, const std::vector<Fill>& bodies);
  /// Tests the condition, runs the body, and again.
  PlainNode while_(std::string name, Condition condition, const Fill& body);
  /// The same with a new condition that starts as 1.
  PlainNode while_(std::string name, const std::function<void(Graph&, Condition)>& body);

  /// Adds the edges that declared accesses ask for (accesses.hpp), here and in children and bodies.
  /// If two nodes touch the same bytes and at least one writes, the one added later follows the
  /// other, unless edges already order them the other way. The accesses of copies, fills,
  /// allocations and frees are known. Call it when the graph is complete.
  void derive_edges();

  /// All rules that this graph breaks, of which `instantiate` throws the first; empty when sound.
  std::vector<GraphError> problems() const;  // rules of order only where there is no cycle
  std::vector<GraphError> device_problems() const;

  /// Validates, hands the graph to the device and returns an exec that launches it.
  Exec instantiate() const;
  /// The same for a graph that device code launches.
  DeviceExec instantiate_for_device() const;

  const std::string& name() const;
  Device device() const;
  std::size_t node_count() const;
  /// Its nodes in the order in which they were added, without those inside children and bodies.
  std::vector<Node> nodes() const;
  /// The sum of its kernels' costs, each node counted once.
  Cost cost() const;

 private:
  friend struct graph::Access;
  Graph(graph::GraphData& data, std::uint32_t scope);
  NodeId add_kernel(const KernelInfo& kernel, const Grid& grid, const void* args);
  NodeId add_allocation(std::string name, std::size_t bytes, void*& address);
  PlainNode add_conditional(std::string name, int kind, Condition condition,
                            const std::vector<Fill>& bodies);

  std::unique_ptr<graph::GraphData> owned_;  // null in the body of a conditional
  graph::GraphData* data_;
  std::uint32_t scope_ = 0;
};

/// The graph for people: one line per node, bodies indented.
std::string to_text(const Graph& graph);
/// The graph for Graphviz.
std::string to_dot(const Graph& graph);
/// The graph for programs; the format is in docs/graph-json.md.
std::string to_json(const Graph& graph);

}  // namespace attacca
