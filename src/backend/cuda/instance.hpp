// instance.hpp: a graph as a cudaGraphExec_t: made, launched, changed in place and given up.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/built_graph.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/stream.hpp"
#include "graph/executor.hpp"

namespace attacca::cuda {

class CudaInstance final : public graph::Instance {
 public:
  CudaInstance(CudaDevice& device, const graph::GraphData& data, graph::Target target);
  ~CudaInstance() override;

  void launch(graph::StreamImpl& stream) override;
  std::optional<graph::Refusal> apply(const graph::GraphData& data,
                                      const graph::Changes& changes) override;
  void upload() override;
  DeviceGraph handle() override { return {built_->exec}; }
  void* native() override { return built_->exec; }
  std::size_t host_bytes() const override;

 private:
  void tell(graph::Observer& observer, const graph::GraphData& data) const;
  void instantiate(const graph::GraphData& data);
  void release() noexcept;

  /// Where a node's parameters are set: in the exec, or in the graph it was made from.
  enum class Side : std::uint8_t { exec, graph };
  cudaError_t set_parameters(const graph::GraphData& data, NodeId id, Side side);
  std::optional<graph::Refusal> apply_parameters(const graph::GraphData& data, NodeId id);
  std::optional<graph::Refusal> apply_enabled(const graph::GraphData& data, NodeId id);
  /// Sets the changed nodes of the graph and updates the exec from it.
  std::optional<graph::Refusal> apply_all(const graph::GraphData& data,
                                          std::span<const NodeId> changed);
  void mark_stale(NodeId id);

  CudaDevice& device_;
  std::string name_;                   // of the graph
  std::shared_ptr<BuiltGraph> built_;  // launches in flight may keep it longer than this
  std::vector<NodeId> stale_;   // set in the exec alone since the last update of the whole graph
  std::vector<bool> is_stale_;  // by NodeId
  std::shared_ptr<CudaStream> side_stream_;  // captures library calls, uploads
};

}  // namespace attacca::cuda
