// adopt.hpp: turns a cudaGraph_t that other code built or captured into a Graph: it prints, its
// nodes can be set one by one with typed arguments, and it can be a child of another graph.
#pragma once

#include <attacca/graph.hpp>
#include <cstdint>
#include <span>
#include <string>

namespace attacca {

/// A Graph with the nodes and edges of a cudaGraph_t, in the driver's order, children included.
/// The given graph is read and not changed. It may be destroyed afterwards, but the memory and the
/// kernel modules that its nodes use must stay.
///
/// Kernels keep their attributes (clusters, priority, cooperative launch), and empty nodes become
/// empty children. These are refused with the name and type of the node: host calls, conditionals,
/// events, semaphores and memory nodes, copies of arrays or of three dimensions, and fills that are
/// no repeated byte. Put such a graph into a `library` node with capture_cuda instead. An edge from
/// a kernel's launch-order port becomes a full edge, which orders more.
Graph adopt_cuda(const Device& device, void* cuda_graph, std::string name = "adopted");

/// Typed handles of nodes found with Graph::nodes. Each throws BadArgument with the node's name
/// where the node has another kind or takes other parameters.
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
