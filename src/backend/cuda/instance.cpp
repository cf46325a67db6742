// instance.cpp: from a built graph to a cudaGraphExec_t, its launches and its end. The graph itself
// comes from graph_builder.cpp, and changes to the exec are in instance_update.cpp.
#include "backend/cuda/instance.hpp"

#include <fmt/core.h>

#include "backend/cuda/check.hpp"
#include "backend/cuda/graph_builder.hpp"

namespace attacca::cuda {

using namespace graph;

CudaInstance::CudaInstance(CudaDevice& device, const GraphData& data, Target target)
    : device_(device),
      name_(data.name),
      built_(std::make_shared<BuiltGraph>(device, data, target)),
      is_stale_(data.nodes.size()) {
  const CurrentDevice current(device_.index());
  try {
    build_graph(*built_, data, side_stream_);
    if (const auto observer = device_.observer()) tell(*observer, data);
    instantiate(data);
    if (target == Target::device_launch) device_.faults().add_device_graph(built_->faults);
  } catch (...) {
    release();
    throw;
  }
}

CudaInstance::~CudaInstance() { release(); }

void CudaInstance::release() noexcept {
  // Destroying a graph with conditionals waits for its launches (driver 580).
  if (built_->is_watched || built_->contents.has_conditionals || !built_->keeps.empty() ||
      built_->target == Target::device_launch)
    device_.keep_while_busy(built_);
  built_.reset();
}

void CudaInstance::tell(Observer& observer, const GraphData& data) const {
  for (NodeId id = 0; id < data.nodes.size(); ++id) {
    if (!built_->nodes[id]) continue;
    const auto* kernel = std::get_if<KernelPart>(&data.nodes[id].part);
    observer.built(built_->nodes[id], {.node = data.nodes[id].name,
                                       .graph = data.name,
                                       .kernel = kernel ? kernel->info : nullptr,
                                       .args = kernel ? kernel->args.data() : nullptr});
  }
}

void CudaInstance::instantiate(const GraphData& data) {
  cudaGraphInstantiateParams params{};
  if (built_->target == Target::device_launch) params.flags |= cudaGraphInstantiateFlagDeviceLaunch;
  if (built_->contents.has_allocations) params.flags |= cudaGraphInstantiateFlagAutoFreeOnLaunch;
  if (built_->contents.has_priorities) params.flags |= cudaGraphInstantiateFlagUseNodePriority;
  const cudaError_t result = cudaGraphInstantiateWithParams(&built_->exec, built_->native, &params);
  if (result != cudaSuccess) {
    std::string node = "(the driver names none)";
    for (NodeId id = 0; id < built_->nodes.size(); ++id)
      if (params.errNode_out && built_->nodes[id] == params.errNode_out) node = data.nodes[id].name;
    built_->exec = nullptr;
    throw DeviceError(fmt::format("the driver refused graph '{}' at node '{}': {}, result {}",
                                  data.name, node, take_error(result),
                                  static_cast<int>(params.result_out)));
  }
  for (NodeId id = 0; id < data.nodes.size(); ++id)
    if (!data.nodes[id].is_enabled && built_->nodes[id] &&
        !std::holds_alternative<FillPart>(data.nodes[id].part))
      check(cudaGraphNodeSetEnabled(built_->exec, built_->nodes[id], 0),
            [&] { return fmt::format("switching off '{}'", data.nodes[id].name); });
}

void CudaInstance::upload() {
  const CurrentDevice current(device_.index());
  if (!side_stream_) side_stream_ = std::make_shared<CudaStream>(device_);
  check(cudaGraphUpload(built_->exec, side_stream_->get()), "uploading a device graph");
  check(cudaStreamSynchronize(side_stream_->get()));
}

void CudaInstance::launch(StreamImpl& stream) {
  auto& cuda_stream = static_cast<CudaStream&>(stream);
  if (cuda_stream.capture)
    throw BadArgument("a graph launched inside a library call; do it outside, on a Stream");
  const CurrentDevice current(device_.index());
  cuda_stream.refuse_capture("a graph launched");
  if (built_->is_watched) cuda_stream.faults().watch(built_->faults, built_->may_launch);
  const std::shared_ptr<Observer> observer = device_.observer();
  if (!observer || !observer->times_launches())
    return check(cudaGraphLaunch(built_->exec, cuda_stream.enqueuing()), "launching a graph");
  const std::shared_ptr<EventImpl> start = device_.make_event(true);
  const std::shared_ptr<EventImpl> end = device_.make_event(true);
  cuda_stream.record(*start);
  check(cudaGraphLaunch(built_->exec, cuda_stream.enqueuing()), "launching a graph");
  cuda_stream.record(*end);
  observer->launched(name_, stream, start, end);
}

std::size_t CudaInstance::host_bytes() const {
  return sizeof *this + sizeof *built_ + built_->nodes.size() * sizeof(cudaGraphNode_t);
}

}  // namespace attacca::cuda
