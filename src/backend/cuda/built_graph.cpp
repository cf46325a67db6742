// built_graph.cpp: node parameters in the driver's form, and the end of a graph.
#include "backend/cuda/built_graph.hpp"

#include "backend/cuda/check.hpp"
#include "graph/parameters.hpp"
#include "graph/relocate.hpp"
#include "graph/uses.hpp"

namespace attacca::cuda {

using namespace graph;
using attacca::detail::HandleKind;

/// Memory nodes, conditionals and copies of several rows restrict the driver's update of a whole
/// graph, and device-updatable kernels rule it out. A library call may have captured any of these.
/// Adopted kernels are set one by one.
GraphContents::GraphContents(const GraphData& data, Target target)
    : can_update_whole(target == Target::host_launch) {
  for (const NodeData& node : data.nodes) {
    has_priorities = has_priorities || node.priority != 0;
    if (const auto* kernel = std::get_if<KernelPart>(&node.part)) {
      launching_kernels += kernel->info->traits.launches;
      can_update_whole =
          can_update_whole && !kernel->is_device_updatable && !is_driver_function(*kernel->info);
    } else if (const auto* copy = std::get_if<CopyPart>(&node.part)) {
      can_update_whole = can_update_whole && copy->rows == 1;
    } else {
      has_conditionals = has_conditionals || std::holds_alternative<ConditionalPart>(node.part);
      has_allocations = has_allocations || std::holds_alternative<AllocatePart>(node.part);
      can_update_whole = can_update_whole && (std::holds_alternative<FillPart>(node.part) ||
                                              std::holds_alternative<HostPart>(node.part) ||
                                              std::holds_alternative<ChildPart>(node.part));
    }
  }
}

cudaMemsetParams memset_params(void* to, unsigned value, std::size_t bytes) {
  cudaMemsetParams params{};
  params.dst = to;
  params.value = value;
  params.elementSize = 1;
  params.width = bytes;
  params.height = 1;
  return params;
}

BuiltGraph::BuiltGraph(CudaDevice& on, const GraphData& data, Target launched_by)
    : device(on),
      target(launched_by),
      contents(data, launched_by),
      nodes(data.nodes.size()),
      symbol_values(data.symbols.size()),
      faults(std::make_shared<FaultBox>(on.faults())),
      keeps(data.keeps) {}

BuiltGraph::~BuiltGraph() {
  const CurrentDevice current(device.index(), std::nothrow);
  // With driver 580, once execs for device launch had been destroyed, streams of later execs were
  // done while their loops still ran. So such execs stay to the end of the process; docs/engine.md
  // has the measurement.
  if (exec && target != Target::device_launch) (void)cudaGraphExecDestroy(exec);
  if (native) (void)cudaGraphDestroy(native);
  if (shared_counts) (void)cudaFree(shared_counts);
  for (const auto& [node, word] : pending) (void)cudaFree(word);
  (void)cudaGetLastError();
}

std::uint64_t BuiltGraph::resolve(const GraphData& data, std::uint64_t word) const {
  return relocated(data, word, [&](SymbolId symbol) { return symbol_values[symbol]; });
}

void* BuiltGraph::resolve(const GraphData& data, const void* address) const {
  return reinterpret_cast<void*>(resolve(data, reinterpret_cast<std::uint64_t>(address)));
}

attacca::detail::LaunchPort BuiltGraph::port_of(const GraphData& data, NodeId id) {
  const NodeData& node = data.nodes[id];
  const KernelInfo& kernel = *std::get<KernelPart>(node.part).info;
  attacca::detail::LaunchPort port = faults->port(kernel, node.name, data.name);
  is_watched = true;
  if (kernel.traits.launches) {
    may_launch = true;
    port.shared = shared_counts;
    port.is_alone = !shared_counts && target == Target::device_launch;
    if (const auto site = data.launch_sites.find(id); site != data.launch_sites.end())
      port.site = site->second;
  }
  if (const auto word = pending.find(id); word != pending.end()) port.pending = word->second;
  return port;
}

void BuiltGraph::prepare_call(const GraphData& data, NodeId id, KernelCall& call) {
  const NodeData& node = data.nodes[id];
  const auto& kernel = std::get<KernelPart>(node.part);
  const bool has_stand_ins = !uses_of(data, node).empty();
  if (has_stand_ins) {
    call.args = kernel.args;
    relocate_arguments(data, call.args, HandleKind::cuda,
                       [&](SymbolId symbol) { return symbol_values[symbol]; });
  }
  if (kernel.info->traits.has_port) call.port = port_of(data, id);
  device.allow_shared_bytes(*kernel.info, kernel.grid);
  check_parameters(*kernel.info);
  call.parameters.set(*kernel.info, has_stand_ins ? call.args.data() : kernel.args.data(),
                      &call.port);
  call.params = {};
  call.params.func = const_cast<void*>(kernel.info->cuda);
  call.params.gridDim = dim3(kernel.grid.blocks.x, kernel.grid.blocks.y, kernel.grid.blocks.z);
  call.params.blockDim = dim3(kernel.grid.threads.x, kernel.grid.threads.y, kernel.grid.threads.z);
  call.params.sharedMemBytes = kernel.grid.shared_bytes;
  call.params.kernelParams = call.parameters.data();
}

/// Driver 580: when a memset node is switched off, its followers run before its producers have
/// ended. So a fill that is switched off stays in the graph and writes to a spare byte.
cudaMemsetParams BuiltGraph::fill_params(const GraphData& data, NodeId id) const {
  if (!data.nodes[id].is_enabled) return memset_params(device.spare_byte(), 0, 1);
  const auto& fill = std::get<FillPart>(data.nodes[id].part);
  return memset_params(resolve(data, fill.to), fill.value, fill.bytes);
}

}  // namespace attacca::cuda
