// producers.hpp: the nodes that one node depends on, in the driver's form.
#pragma once

#include <cuda_runtime.h>

#include <vector>

namespace attacca::cuda {

struct Producers {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges;
  bool are_plain = true;  // then the driver gets no edge data, which is faster
  void clear() {
    nodes.clear();
    edges.clear();
    are_plain = true;
  }
  void add(cudaGraphNode_t node, const cudaGraphEdgeData& edge) {
    nodes.push_back(node);
    edges.push_back(edge);
    are_plain = are_plain && edge.type == cudaGraphDependencyTypeDefault;
  }
  const cudaGraphEdgeData* edge_data() const { return are_plain ? nullptr : edges.data(); }
};

}  // namespace attacca::cuda
