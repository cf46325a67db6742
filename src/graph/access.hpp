// access.hpp: gives the library's own sources the implementation behind its public handles. Only
// src/ and the tests include this.
#pragma once

#include <attacca/device.hpp>
#include <attacca/graph.hpp>
#include <utility>

namespace attacca::graph {

struct Access {
  static DeviceImpl& impl(const Device& device) { return *device.impl_; }
  static Device device(std::shared_ptr<DeviceImpl> impl) { return Device(std::move(impl)); }
  static EventImpl& impl(const Event& event) { return *event.impl_; }
  static StreamState& state(const StreamRef& stream) { return *stream.state_; }
  static StreamRef stream(StreamState& state) { return StreamRef(state); }
  static GraphData& data(Graph& graph) { return *graph.data_; }
  static const GraphData& data(const Graph& graph) { return *graph.data_; }
  /// The nodes of a graph, or of the body or child that it fills, that no other depends on.
  static std::vector<Node> last_nodes(const Graph& graph);
  static GraphData& data(const Node& node) { return *node.data_; }
  /// Throws BadArgument where the node was taken back.
  static NodeData& node(const Node& node) { return node.node_data(); }
  /// A kernel with its argument type erased.
  static PlainNode add_kernel(Graph& graph, const KernelInfo& kernel, const Grid& grid,
                              const void* args) {
    return {*graph.data_, graph.add_kernel(kernel, grid, args)};
  }
  static void add_edge(const Node& node, const Node& producer, EdgeKind kind) {
    node.add_edge(producer, kind);
  }
  static void enqueue_kernel(const StreamRef& stream, const KernelInfo& kernel, const Grid& grid,
                             const void* args) {
    stream.enqueue_kernel(kernel, grid, args);
  }
};

inline DeviceImpl& impl_of(const Device& device) { return Access::impl(device); }
inline EventImpl& impl_of(const Event& event) { return Access::impl(event); }
inline StreamState& state_of(const StreamRef& stream) { return Access::state(stream); }
inline GraphData& data_of(Graph& graph) { return Access::data(graph); }
inline const GraphData& data_of(const Graph& graph) { return Access::data(graph); }

}  // namespace attacca::graph
