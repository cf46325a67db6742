// chain.hpp: a straight line of `touch` kernels, once in attacca and once in the raw API.
// Only for files inside `#if ATTACCA_WITH_CUDA`.
#pragma once

#include <attacca/exec.hpp>
#include <attacca/graph.hpp>

#include <vector>

#include "kernels.hpp"
#include "raw.hpp"

namespace bench {

struct ChainOf {
  unsigned nodes;
  unsigned* cell;
  attacca::EdgeKind edges = attacca::EdgeKind::full;
  unsigned add = 1;       // what each node adds to the cell
  unsigned last_add = 1;  // and the last one

  bool is_programmatic() const { return edges == attacca::EdgeKind::programmatic; }
  kernels::TouchArgs args(unsigned node) const {
    return {cell, node + 1 == nodes ? last_add : add};
  }
};

struct Chain {
  Chain(const attacca::Device& device, const ChainOf& of) : graph(device, "chain") {
    nodes.reserve(of.nodes);
    const auto& kernel = of.is_programmatic() ? kernels::touch_early : kernels::touch;
    for (unsigned at = 0; at < of.nodes; ++at) {
      const auto node = graph.kernel(kernel, kSmallGrid, of.args(at));
      if (at && of.is_programmatic())
        node.after_programmatic(nodes.back());
      else if (at)
        node.after(nodes.back());
      nodes.push_back(node);
    }
  }
  attacca::Graph graph;
  std::vector<attacca::KernelNode<kernels::TouchArgs>> nodes;
};

struct RawChain {
  explicit RawChain(const ChainOf& of) : graph(make_raw_graph()) {
    nodes.reserve(of.nodes);
    const void* kernel = of.is_programmatic() ? kernels::raw.touch_early : kernels::raw.touch;
    for (unsigned at = 0; at < of.nodes; ++at) {
      kernels::TouchArgs args = of.args(at);
      void* pointers[] = {&args};
      nodes.push_back(add_kernel(graph.get(), at ? nodes.back() : nullptr, kernel, pointers,
                                 of.is_programmatic()));
    }
  }
  RawGraph graph;
  std::vector<cudaGraphNode_t> nodes;
};

}  // namespace bench
