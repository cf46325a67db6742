// built_graph.hpp: a cudaGraph_t, the exec made from it and everything its nodes point to. It also
// puts the parameters of a node into the driver's form, which building (graph_builder.hpp) and
// updating (instance_update.cpp) share.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/faults.hpp"
#include "graph/data.hpp"

namespace attacca::cuda {

/// Facts about the nodes that decide how a graph is built, changed and destroyed.
struct GraphContents {
  GraphContents(const graph::GraphData& data, graph::Target target);
  bool has_conditionals = false;
  bool has_allocations = false;
  bool has_priorities = false;
  unsigned launching_kernels = 0;
  bool can_update_whole;  // by cudaGraphExecUpdate
};

/// A kernel's parameters in the driver's form; they point into the graph's data or into this.
struct KernelCall {
  graph::Arguments args;  // only where symbols had to be resolved
  attacca::detail::LaunchPort port;
  KernelPointers parameters;
  cudaKernelNodeParams params;
};

cudaMemsetParams memset_params(void* to, unsigned value, std::size_t bytes);

/// Launches in flight use all of this, so it may have to outlive its instance. The driver keeps the
/// exec for launches by the host. It knows nothing of the memory and functions that nodes point to,
/// nor of launches by device code.
struct BuiltGraph {
  BuiltGraph(CudaDevice& on, const graph::GraphData& data, graph::Target launched_by);
  ~BuiltGraph();
  BuiltGraph(const BuiltGraph&) = delete;

  // A symbol's stand-in becomes its value, and ordinary words stay as they are.
  std::uint64_t resolve(const graph::GraphData& data, std::uint64_t word) const;
  void* resolve(const graph::GraphData& data, const void* address) const;

  attacca::detail::LaunchPort port_of(const graph::GraphData& data, NodeId id);
  void prepare_call(const graph::GraphData& data, NodeId id, KernelCall& call);
  cudaMemsetParams fill_params(const graph::GraphData& data, NodeId id) const;

  CudaDevice& device;
  graph::Target target;
  GraphContents contents;
  cudaGraph_t native = nullptr;
  cudaGraphExec_t exec = nullptr;
  std::vector<cudaGraphNode_t> nodes;        // by NodeId; null for library calls and children
  std::vector<std::uint64_t> symbol_values;  // by SymbolId
  bool is_watched = false;  // something in it may fail: a host call, a kernel that may report
  bool may_launch = false;  // device graphs
  attacca::detail::LaunchCounts* shared_counts = nullptr;  // device memory, where several launch
  std::unordered_map<NodeId, unsigned*> pending;  // device memory of each kernel that spawns
  std::vector<std::unique_ptr<HostCall>> calls;   // what host nodes point to
  std::shared_ptr<FaultBox> faults;
  std::vector<std::shared_ptr<const void>> keeps;
};

}  // namespace attacca::cuda
