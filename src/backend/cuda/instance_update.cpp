// instance_update.cpp: changes to a cudaGraphExec_t: node by node, or all at once through the graph
// it was made from.
#include <fmt/core.h>

#include <algorithm>

#include "backend/cuda/check.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/instance.hpp"
#include "graph/parameters.hpp"

namespace attacca::cuda {

using namespace graph;

namespace {

/// A whole update costs time for every node of the graph, setting nodes one by one only for those
/// that changed. The whole graph is updated when at least this many nodes changed, and at least one
/// node in `kWholeUpdateShare`.
constexpr std::size_t kWholeUpdateNodes = 16;
constexpr std::size_t kWholeUpdateShare = 4;

Refusal refused_parameters(const NodeData& node, cudaError_t result) {
  return {fmt::format("the driver refused new parameters for {} '{}': {}", kind_name(node),
                      node.name, take_error(result)),
          node.name};
}

/// The driver changes no copy of several rows in place.
std::optional<Refusal> refused_rows(const GraphData& data, std::span<const NodeId> changed) {
  for (const NodeId id : changed) {
    const NodeData& node = data.nodes[id];
    const auto* copy = std::get_if<CopyPart>(&node.part);
    if (copy && copy->rows != 1)
      return Refusal{
          fmt::format("the driver changes no copy of several rows in place, as '{}' is", node.name),
          node.name};
  }
  return std::nullopt;
}

const char* spell(cudaGraphExecUpdateResult result) {
  switch (result) {
    case cudaGraphExecUpdateErrorTopologyChanged:
      return "the topology changed";
    case cudaGraphExecUpdateErrorNodeTypeChanged:
      return "the node's kind changed";
    case cudaGraphExecUpdateErrorFunctionChanged:
    case cudaGraphExecUpdateErrorUnsupportedFunctionChange:
      return "the function changed";
    case cudaGraphExecUpdateErrorParametersChanged:
      return "the parameters changed in a way that it does not support";
    case cudaGraphExecUpdateErrorNotSupported:
      return "something about the node is not supported";
    case cudaGraphExecUpdateErrorAttributesChanged:
      return "the attributes changed";
    default:
      return "it gives no reason";
  }
}

}  // namespace

cudaError_t CudaInstance::set_parameters(const GraphData& data, NodeId id, Side side) {
  const NodeData& node = data.nodes[id];
  const cudaGraphNode_t target = built_->nodes[id];
  const bool is_exec = side == Side::exec;
  if (std::holds_alternative<KernelPart>(node.part)) {
    KernelCall call;
    built_->prepare_call(data, id, call);
    // Graphs with such kernels are never updated whole.
    if (is_driver_function(*std::get<KernelPart>(node.part).info))
      return driver_set_kernel_params(built_->exec, target, call.params);
    return is_exec ? cudaGraphExecKernelNodeSetParams(built_->exec, target, &call.params)
                   : cudaGraphKernelNodeSetParams(target, &call.params);
  }
  if (const auto* copy = std::get_if<CopyPart>(&node.part)) {
    void* to = built_->resolve(data, copy->to);
    const void* from = built_->resolve(data, copy->from);
    return is_exec
               ? cudaGraphExecMemcpyNodeSetParams1D(built_->exec, target, to, from, copy->bytes,
                                                    cudaMemcpyDefault)
               : cudaGraphMemcpyNodeSetParams1D(target, to, from, copy->bytes, cudaMemcpyDefault);
  }
  if (std::holds_alternative<FillPart>(node.part)) {
    const cudaMemsetParams params = built_->fill_params(data, id);
    return is_exec ? cudaGraphExecMemsetNodeSetParams(built_->exec, target, &params)
                   : cudaGraphMemsetNodeSetParams(target, &params);
  }
  return cudaSuccess;
}

std::optional<Refusal> CudaInstance::apply(const GraphData& data, const Changes& changes) {
  const CurrentDevice current(device_.index());
  if (auto refusal = refused_rows(data, changes.parameters)) return refusal;
  const std::size_t changed = changes.parameters.size();
  if (built_->contents.can_update_whole && changed >= kWholeUpdateNodes &&
      changed * kWholeUpdateShare >= built_->nodes.size()) {
    if (auto refusal = apply_all(data, changes.parameters)) return refusal;
  } else {
    for (const NodeId id : changes.parameters)
      if (auto refusal = apply_parameters(data, id)) return refusal;
  }
  for (const NodeId id : changes.switches)
    if (auto refusal = apply_enabled(data, id)) return refusal;
  return std::nullopt;
}

void CudaInstance::mark_stale(NodeId id) {
  if (!built_->contents.can_update_whole || is_stale_[id]) return;
  is_stale_[id] = true;
  stale_.push_back(id);
}

std::optional<Refusal> CudaInstance::apply_all(const GraphData& data,
                                               std::span<const NodeId> changed) {
  // The update would undo what was set in the exec alone, so set that in the graph too.
  for (const NodeId id : changed) mark_stale(id);
  for (const NodeId id : stale_)
    if (const cudaError_t result = set_parameters(data, id, Side::graph); result != cudaSuccess)
      return refused_parameters(data.nodes[id], result);
  cudaGraphExecUpdateResultInfo info{};
  const cudaError_t result = cudaGraphExecUpdate(built_->exec, built_->native, &info);
  if (result != cudaSuccess) {
    const auto found = std::find(built_->nodes.begin(), built_->nodes.end(), info.errorNode);
    const std::string node =
        info.errorNode && found != built_->nodes.end()
            ? data.nodes[static_cast<std::size_t>(found - built_->nodes.begin())].name
            : data.name;
    return Refusal{fmt::format("the driver refused to update graph '{}' at '{}': {} ({})",
                               data.name, node, spell(info.result), take_error(result)),
                   node};
  }
  for (const NodeId id : stale_) is_stale_[id] = false;
  stale_.clear();
  return std::nullopt;
}

std::optional<Refusal> CudaInstance::apply_parameters(const GraphData& data, NodeId id) {
  mark_stale(id);
  const cudaError_t result = set_parameters(data, id, Side::exec);
  if (result == cudaSuccess) return std::nullopt;
  return refused_parameters(data.nodes[id], result);
}

std::optional<Refusal> CudaInstance::apply_enabled(const GraphData& data, NodeId id) {
  const NodeData& node = data.nodes[id];
  if (std::holds_alternative<FillPart>(node.part)) return apply_parameters(data, id);
  // An update of the whole graph does not change this.
  const cudaError_t result =
      cudaGraphNodeSetEnabled(built_->exec, built_->nodes[id], node.is_enabled ? 1 : 0);
  if (result == cudaSuccess) return std::nullopt;
  return Refusal{fmt::format("the driver refused to switch '{}' {}: {}", node.name,
                             node.is_enabled ? "on" : "off", take_error(result)),
                 node.name};
}

}  // namespace attacca::cuda
