// adopt.hpp: a cudaGraph_t that somebody else built or captured, as a Graph: it prints, its nodes
// can be set one by one with typed arguments, and it can be a child of another graph.
#pragma once

#include <attacca/graph.hpp>
#include <cstdint>
#include <span>
#include <string>

namespace attacca {

/// A Graph with the nodes and edges of a cudaGraph_t, in the driver's order, children included.
/// The given graph is read and left as it is; it may be destroyed afterwards, but not what its
/// nodes use: memory, and modules with their kernels.
///
/// Kernels keep their attributes (clusters, priority, cooperative launch), and empty nodes become
/// empty children. Refused, naming the node and its type: host calls, conditionals, events,
/// semaphores and memory nodes, copies of arrays or of three dimensions, and fills that are no
/// repeated byte; put such a graph into a `library` node with capture_cuda instead. An edge from a
/// kernel's launch-order port becomes a full edge, which orders more.
Graph adopt_cuda(const Device& device, void* cuda_graph, std::string name = "adopted");

/// Typed handles of nodes found with Graph::nodes. Each throws BadArgument, naming the node, where
/// it is of another kind or takes other parameters.
CopyNode copy_node(const Node& node);
FillNode fill_node(const Node& node);

namespace detail {
/// The data of the node's graph. Throws unless it is a plain CUDA kernel with parameters of these
/// sizes.
graph::GraphData& check_parameters(const Node& node, std::span<const std::uint32_t> sizes);
}  // namespace detail

template <class... P>
CudaKernelNode<P...> cuda_kernel_node(const Node& node) {
  return {detail::check_parameters(node, detail::PackedParameters<P...>::kSizes), node.id()};
}

}  // namespace attacca
