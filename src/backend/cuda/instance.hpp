// instance.hpp: a graph as a cudaGraphExec_t.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/stream.hpp"
#include "graph/executor.hpp"
#include "graph/lower.hpp"

namespace attacca::cuda {

class CudaInstance final : public graph::Instance {
 public:
  CudaInstance(CudaDevice& device, const graph::GraphData& data, graph::Target target);
  ~CudaInstance() override;

  void launch(graph::StreamImpl& stream) override;
  std::optional<graph::Refusal> apply(const graph::GraphData& data,
                                      const graph::Changes& changes) override;
  void upload() override;
  DeviceGraph handle() override { return {exec_}; }
  void* native() override { return exec_; }
  std::size_t host_bytes() const override;

 private:
  /// What about the nodes decides how the graph is built, changed and destroyed.
  struct Contents {
    Contents(const graph::GraphData& data, graph::Target target);
    bool has_conditionals = false;
    bool has_allocations = false;
    bool has_priorities = false;
    unsigned launching_kernels = 0;
    bool can_update_whole;  // by cudaGraphExecUpdate
  };
  /// What a node depends on, in the driver's form.
  struct Producers {
    std::vector<cudaGraphNode_t> nodes;
    std::vector<cudaGraphEdgeData> edges;
    bool are_plain = true;  // the driver is faster when it need not look at them
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
  /// A kernel's parameters in the driver's form; they point into the graph's data or into this.
  struct KernelCall {
    graph::Arguments args;  // only where symbols had to be resolved
    attacca::detail::LaunchPort port;
    KernelPointers parameters;
    cudaKernelNodeParams params;
  };

  void build(const graph::GraphData& data);
  void build_scope(const graph::GraphData& data, const graph::LoweredScope& scope,
                   cudaGraph_t into);
  void build_node(const graph::GraphData& data, const graph::LoweredNode& node, cudaGraph_t into);
  void build_library(const graph::GraphData& data, NodeId id, cudaGraph_t into);
  void find_producers(const graph::LoweredNode& node);
  /// `call` must outlive the result.
  cudaGraphNodeParams node_params(const graph::GraphData& data, NodeId id, KernelCall& call);
  cudaError_t add_large_copy(cudaGraphNode_t& made, cudaGraph_t into, void* to, const void* from,
                             std::size_t bytes);
  void build_settling(const graph::GraphData& data, NodeId id, cudaGraph_t into);
  void set_attributes(const graph::GraphData& data, NodeId id, cudaGraphNode_t made);
  void finish_updatable_nodes(const graph::GraphData& data);
  void instantiate(const graph::GraphData& data);
  void release() noexcept;

  /// Where a node's parameters are set: in what is launched, or in the graph that was made from.
  enum class Side : std::uint8_t { exec, graph };
  cudaError_t set_parameters(const graph::GraphData& data, NodeId id, Side side);
  std::optional<graph::Refusal> apply_parameters(const graph::GraphData& data, NodeId id);
  std::optional<graph::Refusal> apply_enabled(const graph::GraphData& data, NodeId id);
  /// Sets the changed nodes of the source graph and updates the executable one from it.
  std::optional<graph::Refusal> apply_all(const graph::GraphData& data,
                                          std::span<const NodeId> changed);
  void mark_stale(NodeId id);

  std::uint64_t resolve(const graph::GraphData& data, std::uint64_t word) const;
  void* resolve(const graph::GraphData& data, const void* address) const;
  attacca::detail::LaunchPort port_of(const graph::GraphData& data, NodeId id);
  cudaMemsetParams fill_params(const graph::GraphData& data, NodeId id) const;
  void fill_call(const graph::GraphData& data, NodeId id, KernelCall& call);

  CudaDevice& device_;
  graph::Target target_;
  const graph::Lowered* lowered_ = nullptr;  // while building
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;             // by NodeId; null for library calls and children
  std::unordered_map<NodeId, Producers> exits_;    // what a follower depends on, where that differs
  std::unordered_map<NodeId, unsigned*> pending_;  // of kernels that spawn: device memory
  std::vector<std::uint64_t> symbol_values_;       // by SymbolId
  std::vector<std::unique_ptr<HostCall>> calls_;   // what host nodes point to
  Contents contents_;
  std::shared_ptr<FaultBox> faults_;
  bool is_watched_ = false;  // something in it may fail: a host call, a kernel that may report
  bool may_launch_ = false;  // device graphs
  attacca::detail::LaunchCounts* shared_counts_ = nullptr;  // device memory, where several launch
  cudaGraphNode_t reset_counts_ = nullptr;
  std::vector<NodeId> stale_;   // set in the executable graph alone, since the last such update
  std::vector<bool> is_stale_;  // by NodeId
  Producers producers_;         // of the node being built
  std::shared_ptr<CudaStream> side_stream_;  // captures library calls, uploads
  struct Remains;
  std::shared_ptr<Remains> remains_;  // for launches that outlive this; empty until then
};

}  // namespace attacca::cuda
