// chain.hpp: a straight line of `touch` kernels, once in attacca and once in the raw API.
// Only for files inside `#if ATTACCA_WITH_CUDA`.
#pragma once

#include <attacca/exec.hpp>
#include <attacca/graph.hpp>

#include <optional>
#include <vector>

#include "kernels.hpp"
#include "raw.hpp"

namespace bench {

/// What a chain has besides its kernels: memory that its first node writes to and that is freed
/// after its last, or a condition that is set there and read by an IF.
enum class Extra { none, allocation, condition };

/// REQUIRES: not `none`.
inline const char* name_of(Extra extra) {
  return extra == Extra::allocation ? "an allocation" : "a condition";
}

struct ChainOf {
  unsigned nodes;
  unsigned* cell;
  attacca::EdgeKind edges = attacca::EdgeKind::full;
  unsigned add = 1;       // added to the cell by each node
  unsigned last_add = 1;  // added by the last one
  Extra extra = Extra::none;
  unsigned* first_cell = nullptr;  // the first node's cell, if not the others'

  bool is_programmatic() const { return edges == attacca::EdgeKind::programmatic; }
  kernels::TouchArgs args(unsigned node) const {
    return {node == 0 && first_cell ? first_cell : cell, node + 1 == nodes ? last_add : add};
  }
};

struct Chain {
  Chain(const attacca::Device& device, const ChainOf& chain) : of(chain), graph(device, "chain") {
    nodes.reserve(of.nodes);
    const auto& kernel = of.is_programmatic() ? kernels::touch_early : kernels::touch;
    std::optional<attacca::Allocation<unsigned>> memory;
    if (of.extra == Extra::allocation) {
      memory = graph.allocate<unsigned>("memory", 1);
      of.first_cell = memory->data();
    }
    for (unsigned at = 0; at < of.nodes; ++at) {
      const auto node = graph.kernel(kernel, kSmallGrid, of.args(at));
      if (at && of.is_programmatic())
        node.after_programmatic(nodes.back());
      else if (at)
        node.after(nodes.back());
      else if (memory)
        node.after(*memory);
      nodes.push_back(node);
    }
    if (memory) graph.free(*memory).after(nodes.back());
    if (of.extra == Extra::condition) {
      const attacca::Condition on = graph.condition("on");
      const auto set =
          graph.kernel(kernels::count, kSmallGrid, {on, of.cell + 1, 1}).after(nodes.back());
      graph
          .if_("if", on, [&](attacca::Graph& body) { body.kernel(kernel, kSmallGrid, of.args(0)); })
          .after(set);
    }
  }
  ChainOf of;
  attacca::Graph graph;
  std::vector<attacca::KernelNode<kernels::TouchArgs>> nodes;
};

struct RawChain {
  explicit RawChain(const ChainOf& chain) : of(chain), graph(make_raw_graph()) {
    nodes.reserve(of.nodes);
    const void* kernel = of.is_programmatic() ? kernels::raw.touch_early : kernels::raw.touch;
    cudaGraphNode_t memory = nullptr;
    if (of.extra == Extra::allocation) memory = add_memory();
    for (unsigned at = 0; at < of.nodes; ++at) {
      kernels::TouchArgs node_args = of.args(at);
      void* pointers[] = {&node_args};
      nodes.push_back(add_kernel(graph.get(), at ? nodes.back() : memory, kernel, pointers,
                                 at && of.is_programmatic()));
    }
    if (memory) {
      cudaGraphNode_t free = nullptr;
      check(cudaGraphAddMemFreeNode(&free, graph.get(), &nodes.back(), 1, of.first_cell));
    }
    if (of.extra == Extra::condition) add_condition(kernel);
  }
  ChainOf of;
  RawGraph graph;
  std::vector<cudaGraphNode_t> nodes;

 private:
  cudaGraphNode_t add_memory() {
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeMemAlloc;
    params.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    int device = 0;
    check(cudaGetDevice(&device));
    params.alloc.poolProps.location = {cudaMemLocationTypeDevice, device};
    params.alloc.bytesize = sizeof(unsigned);
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddNode(&node, graph.get(), nullptr, nullptr, 0, &params));
    of.first_cell = static_cast<unsigned*>(params.alloc.dptr);
    return node;
  }
  void add_condition(const void* kernel) {
    cudaGraphConditionalHandle on{};
    check(cudaGraphConditionalHandleCreate(&on, graph.get(), 0, cudaGraphCondAssignDefault));
    unsigned* passes = of.cell + 1;
    unsigned limit = 1;
    void* count_pointers[] = {&on, &passes, &limit};
    const cudaGraphNode_t set =
        add_kernel(graph.get(), nodes.back(), kernels::raw.count, count_pointers);
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = on;
    params.conditional.type = cudaGraphCondTypeIf;
    params.conditional.size = 1;
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddNode(&node, graph.get(), &set, nullptr, 1, &params));
    kernels::TouchArgs body_args = of.args(0);
    void* pointers[] = {&body_args};
    add_kernel(params.conditional.phGraph_out[0], nullptr, kernel, pointers);
  }
};

}  // namespace bench
