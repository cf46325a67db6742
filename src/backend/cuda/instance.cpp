// instance.cpp: from graph data to a cudaGraphExec_t, and its launch. Validation has happened; what
// the driver still refuses is reported with the node's name. Changes to one that is made are in
// instance_update.cpp.
#include "backend/cuda/instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/cuda/check.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/l2.hpp"
#include "backend/cuda/settle.hpp"
#include "graph/parameters.hpp"
#include "graph/relocate.hpp"
#include "graph/uses.hpp"

namespace attacca::cuda {

using namespace graph;
using attacca::detail::HandleKind;
using attacca::detail::LaunchCounts;

namespace {

cudaGraphEdgeData edge_data(EdgeKind kind) {
  cudaGraphEdgeData data{};
  if (kind == EdgeKind::programmatic) {
    data.type = cudaGraphDependencyTypeProgrammatic;
    data.from_port = cudaGraphKernelNodePortProgrammatic;
  }
  return data;
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

bool launches(const NodeData& node) {
  const auto* kernel = std::get_if<KernelPart>(&node.part);
  return kernel && kernel->info->traits.launches;
}

bool spawns(const NodeData& node) {
  const auto* kernel = std::get_if<KernelPart>(&node.part);
  return kernel && kernel->info->traits.spawns;
}

/// The most bytes in a row of a copy in two or three dimensions.
constexpr std::size_t kMaxPitch = 0x7fffffff;

cudaMemcpy3DParms memcpy_params(void* to, const void* from, const CopyPart& copy) {
  cudaMemcpy3DParms params{};
  const std::size_t from_pitch = copy.rows == 1 ? copy.bytes : copy.from_pitch;
  const std::size_t to_pitch = copy.rows == 1 ? copy.bytes : copy.to_pitch;
  params.srcPtr = make_cudaPitchedPtr(const_cast<void*>(from), from_pitch, copy.bytes, copy.rows);
  params.dstPtr = make_cudaPitchedPtr(to, to_pitch, copy.bytes, copy.rows);
  params.extent = make_cudaExtent(copy.bytes, copy.rows, 1);
  params.kind = cudaMemcpyDefault;
  return params;
}

std::unique_ptr<unsigned, FreeDevice> zeroed_word() {
  unsigned* word = nullptr;
  check(cudaMalloc(&word, sizeof *word));
  std::unique_ptr<unsigned, FreeDevice> owner(word);
  check(cudaMemset(word, 0, sizeof *word));
  check(cudaStreamSynchronize(cudaStreamLegacy));  // our streams do not wait for this one
  return owner;
}

}  // namespace

/// Memory nodes, conditionals and copies of several rows restrict the driver's update of a whole
/// graph, device-updatable kernels rule it out, and what a library call captured may be any of
/// these. Adopted kernels are set one by one.
CudaInstance::Contents::Contents(const GraphData& data, Target target)
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

/// What a launch in flight uses. The driver knows of its own part, the exec launched by the host;
/// not of the memory and functions that nodes point to, nor of what device code launches.
struct CudaInstance::Remains {
  explicit Remains(int on) : device(on) {}
  ~Remains() {
    const CurrentDevice current(device, std::nothrow);
    if (exec) (void)cudaGraphExecDestroy(exec);
    if (graph) (void)cudaGraphDestroy(graph);
    if (shared_counts) (void)cudaFree(shared_counts);
    for (const auto& [node, word] : pending) (void)cudaFree(word);
    (void)cudaGetLastError();
  }
  Remains(const Remains&) = delete;

  int device;
  cudaGraphExec_t exec = nullptr;
  cudaGraph_t graph = nullptr;
  LaunchCounts* shared_counts = nullptr;
  std::unordered_map<NodeId, unsigned*> pending;
  std::vector<std::unique_ptr<HostCall>> calls;
  std::shared_ptr<FaultBox> faults;
  std::vector<std::shared_ptr<const void>> keeps;
};

CudaInstance::CudaInstance(CudaDevice& device, const GraphData& data, Target target)
    : device_(device),
      target_(target),
      nodes_(data.nodes.size()),
      symbol_values_(data.symbols.size()),
      contents_(data, target),
      faults_(std::make_shared<FaultBox>(device.faults())),
      is_stale_(data.nodes.size()),
      remains_(std::make_shared<Remains>(device.index())) {
  const CurrentDevice current(device_.index());
  remains_->keeps = data.keeps;
  const Lowered lowered = lower(data);
  lowered_ = &lowered;
  try {
    build(data);
    instantiate(data);
    if (target_ == Target::device_launch) device_.faults().add_device_graph(faults_);
  } catch (...) {
    release();
    throw;
  }
  lowered_ = nullptr;
}

CudaInstance::~CudaInstance() { release(); }

void CudaInstance::release() noexcept {
  remains_->exec = exec_;
  remains_->graph = graph_;
  remains_->shared_counts = shared_counts_;
  remains_->pending.swap(pending_);
  remains_->calls.swap(calls_);
  remains_->faults = std::move(faults_);
  // Destroying a graph with conditionals waits for its launches (driver 580).
  if (is_watched_ || contents_.has_conditionals || !remains_->keeps.empty() ||
      target_ == Target::device_launch)
    device_.keep_while_busy(remains_);
  remains_.reset();
}

void CudaInstance::build(const GraphData& data) {
  check(cudaGraphCreate(&graph_, 0), [&] { return fmt::format("creating graph '{}'", data.name); });
  for (SymbolId id = 0; id < data.symbols.size(); ++id)
    if (data.symbols[id].kind == SymbolKind::condition) {
      cudaGraphConditionalHandle handle{};
      check(cudaGraphConditionalHandleCreate(&handle, graph_, data.symbols[id].initial,
                                             cudaGraphCondAssignDefault),
            [&] { return fmt::format("making condition '{}'", data.symbols[id].name); });
      symbol_values_[id] = handle;
    }
  if (contents_.launching_kernels > 1) {
    // Several kernels share one budget, so it lives in memory and starts from zero each time.
    check(cudaMalloc(&shared_counts_, sizeof(LaunchCounts)));
    const cudaMemsetParams params = memset_params(shared_counts_, 0, sizeof(LaunchCounts));
    check(cudaGraphAddMemsetNode(&reset_counts_, graph_, nullptr, 0, &params));
  }
  build_scope(data, lowered_->root, graph_);
  finish_updatable_nodes(data);
}

void CudaInstance::build_scope(const GraphData& data, const LoweredScope& scope, cudaGraph_t into) {
  for (const LoweredNode& node : scope.nodes) build_node(data, node, into);
}

void CudaInstance::find_producers(const LoweredNode& node) {
  producers_.clear();
  for (const Edge& edge : node.deps) {
    const auto exits = exits_.find(edge.from);
    if (exits == exits_.end()) {
      producers_.add(nodes_[edge.from], edge_data(edge.kind));
      continue;
    }
    for (std::size_t at = 0; at < exits->second.nodes.size(); ++at)
      producers_.add(exits->second.nodes[at], exits->second.edges[at]);
  }
}

void CudaInstance::build_node(const GraphData& data, const LoweredNode& lowered, cudaGraph_t into) {
  const NodeData& node = data.nodes[lowered.id];
  find_producers(lowered);
  if (std::holds_alternative<LibraryPart>(node.part)) {
    build_library(data, lowered.id, into);
    return;
  }
  if (reset_counts_ && launches(node)) producers_.add(reset_counts_, {});
  const bool is_spawning = spawns(node);
  if (is_spawning) {
    unsigned*& word = pending_[lowered.id];
    word = zeroed_word().release();
  }
  KernelCall call;
  cudaGraphNodeParams params = node_params(data, lowered.id, call);
  cudaGraphNode_t& made = nodes_[lowered.id];
  const auto* kernel = std::get_if<KernelPart>(&node.part);
  const auto* copy = std::get_if<CopyPart>(&node.part);
  check(kernel && is_driver_function(*kernel->info)
            ? driver_add_kernel_node(made, into, producers_.nodes.data(), producers_.edge_data(),
                                     producers_.nodes.size(), call.params)
        : copy && copy->rows == 1 && copy->bytes > kMaxPitch
            ? add_large_copy(made, into, resolve(data, copy->to), resolve(data, copy->from),
                             copy->bytes)
            : cudaGraphAddNode(&made, into, producers_.nodes.data(), producers_.edge_data(),
                               producers_.nodes.size(), &params),
        [&] {
          return fmt::format("adding {} '{}' to graph '{}'", kind_name(node), node.name, data.name);
        });

  if (std::holds_alternative<KernelPart>(node.part)) {
    set_attributes(data, lowered.id, made);
    if (is_spawning) build_settling(data, lowered.id, into);
  } else if (const auto* allocate = std::get_if<AllocatePart>(&node.part)) {
    symbol_values_[allocate->symbol] = reinterpret_cast<std::uint64_t>(params.alloc.dptr);
  } else if (const auto* conditional = std::get_if<ConditionalPart>(&node.part)) {
    for (std::size_t at = 0; at < conditional->bodies.size(); ++at)
      build_scope(data, lowered_->bodies[conditional->bodies[at]],
                  params.conditional.phGraph_out[at]);
  }
}

/// Behind `producers_`. The general form of a copy has a pitch, which ends at 2 GiB.
cudaError_t CudaInstance::add_large_copy(cudaGraphNode_t& made, cudaGraph_t into, void* to,
                                         const void* from, std::size_t bytes) {
  const cudaError_t result =
      cudaGraphAddMemcpyNode1D(&made, into, nullptr, 0, to, from, bytes, cudaMemcpyDefault);
  if (result != cudaSuccess || producers_.nodes.empty()) return result;
  const std::vector<cudaGraphNode_t> consumers(producers_.nodes.size(), made);
  return cudaGraphAddDependencies(into, producers_.nodes.data(), consumers.data(),
                                  producers_.edge_data(), producers_.nodes.size());
}

void CudaInstance::build_settling(const GraphData& data, NodeId id, cudaGraph_t into) {
  attacca::detail::LaunchPort port = port_of(data, id);
  void* parameters[] = {&port};
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = const_cast<void*>(settle_kernel());
  params.kernel.gridDim = dim3(1);
  params.kernel.blockDim = dim3(1);
  params.kernel.kernelParams = parameters;
  cudaGraphNode_t made = nullptr;
  check(cudaGraphAddNode(&made, into, &nodes_[id], nullptr, 1, &params), [&] {
    return fmt::format("adding the node that waits for what '{}' spawns", data.nodes[id].name);
  });
  exits_[id].add(made, {});
}

attacca::detail::LaunchPort CudaInstance::port_of(const GraphData& data, NodeId id) {
  const NodeData& node = data.nodes[id];
  attacca::detail::LaunchPort port =
      faults_->port(*std::get<KernelPart>(node.part).info, node.name, data.name);
  is_watched_ = true;
  if (launches(node)) {
    may_launch_ = true;
    port.shared = shared_counts_;
    port.is_alone = !shared_counts_ && target_ == Target::device_launch;
  }
  if (const auto pending = pending_.find(id); pending != pending_.end())
    port.pending = pending->second;
  return port;
}

cudaGraphNodeParams CudaInstance::node_params(const GraphData& data, NodeId id, KernelCall& call) {
  const NodeData& node = data.nodes[id];
  cudaGraphNodeParams params{};
  if (std::holds_alternative<KernelPart>(node.part)) {
    fill_call(data, id, call);
    params.type = cudaGraphNodeTypeKernel;
    params.kernel.func = call.params.func;
    params.kernel.gridDim = call.params.gridDim;
    params.kernel.blockDim = call.params.blockDim;
    params.kernel.sharedMemBytes = call.params.sharedMemBytes;
    params.kernel.kernelParams = call.params.kernelParams;
  } else if (const auto* copy = std::get_if<CopyPart>(&node.part)) {
    params.type = cudaGraphNodeTypeMemcpy;
    params.memcpy.copyParams =
        memcpy_params(resolve(data, copy->to), resolve(data, copy->from), *copy);
  } else if (std::holds_alternative<FillPart>(node.part)) {
    params.type = cudaGraphNodeTypeMemset;
    const cudaMemsetParams p = fill_params(data, id);
    params.memset.dst = p.dst;
    params.memset.value = p.value;
    params.memset.elementSize = p.elementSize;
    params.memset.width = p.width;
    params.memset.height = p.height;
  } else if (const auto* host = std::get_if<HostPart>(&node.part)) {
    is_watched_ = true;
    calls_.push_back(std::make_unique<HostCall>(node.name, data.name, host->call, faults_));
    params.type = cudaGraphNodeTypeHost;
    params.host.fn = &HostCall::run;
    params.host.userData = calls_.back().get();
  } else if (const auto* allocate = std::get_if<AllocatePart>(&node.part)) {
    params.type = cudaGraphNodeTypeMemAlloc;
    params.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    params.alloc.poolProps.location = {cudaMemLocationTypeDevice, device_.index()};
    params.alloc.bytesize = data.symbols[allocate->symbol].bytes;
  } else if (const auto* free = std::get_if<FreePart>(&node.part)) {
    params.type = cudaGraphNodeTypeMemFree;
    params.free.dptr = resolve(data, free->address);
  } else if (const auto* conditional = std::get_if<ConditionalPart>(&node.part)) {
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = resolve(data, conditional->condition);
    params.conditional.type = conditional->kind == ConditionalKind::while_ ? cudaGraphCondTypeWhile
                              : conditional->kind == ConditionalKind::if_  ? cudaGraphCondTypeIf
                                                                          : cudaGraphCondTypeSwitch;
    params.conditional.size = static_cast<unsigned>(conditional->bodies.size());
  }
  return params;
}

void CudaInstance::set_attributes(const GraphData& data, NodeId id, cudaGraphNode_t made) {
  const NodeData& node = data.nodes[id];
  const auto& kernel = std::get<KernelPart>(node.part);
  const auto set = [&](cudaLaunchAttributeID attribute, cudaLaunchAttributeValue value) {
    check(cudaGraphKernelNodeSetAttribute(made, attribute, &value), [&] {
      return fmt::format("setting attribute {} of kernel '{}'", static_cast<int>(attribute),
                         node.name);
    });
  };
  if (const auto adopted = data.adopted_kernels.find(id); adopted != data.adopted_kernels.end())
    check(
        cudaGraphKernelNodeCopyAttributes(made, static_cast<cudaGraphNode_t>(adopted->second.node)),
        [&] { return fmt::format("copying the attributes of kernel '{}'", node.name); });
  cudaLaunchAttributeValue value{};
  if (node.priority != 0) {
    value.priority = device_.driver_priority(node.priority);
    set(cudaLaunchAttributePriority, value);
  }
  const L2Window* window = data.find_l2_window(node);
  if (window && has_effect(*window, device_.l2_cache())) {
    value = {};
    value.accessPolicyWindow = to_cuda(*window);
    set(cudaLaunchAttributeAccessPolicyWindow, value);
  }
  if (kernel.info->traits.is_cooperative) {
    value = {};
    value.cooperative = 1;
    set(cudaLaunchAttributeCooperative, value);
  }
  if (kernel.is_device_updatable) {
    value = {};
    value.deviceUpdatableKernelNode.deviceUpdatable = 1;
    set(cudaLaunchAttributeDeviceUpdatableKernelNode, value);
    check(cudaGraphKernelNodeGetAttribute(made, cudaLaunchAttributeDeviceUpdatableKernelNode,
                                          &value));
    for (SymbolId symbol = 0; symbol < data.symbols.size(); ++symbol)
      if (data.symbols[symbol].kind == SymbolKind::node && data.symbols[symbol].owner == id)
        symbol_values_[symbol] =
            reinterpret_cast<std::uint64_t>(value.deviceUpdatableKernelNode.devNode);
  }
}

void CudaInstance::build_library(const GraphData& data, NodeId id, cudaGraph_t into) {
  const NodeData& node = data.nodes[id];
  const auto doing = [&] { return fmt::format("capturing library call '{}'", node.name); };
  if (!side_stream_) side_stream_ = std::make_shared<CudaStream>(device_);
  const cudaStream_t stream = side_stream_->get();
  check(
      cudaStreamBeginCaptureToGraph(stream, into, producers_.nodes.data(), producers_.edges.data(),
                                    producers_.nodes.size(), cudaStreamCaptureModeThreadLocal),
      doing);
  // The function gets a stream of its own making, so that nothing it does outlives the capture.
  StreamState state(Access::device(device_.shared_from_this()), side_stream_);
  CudaStream& capturing = *side_stream_;
  CudaStream::Capture capture{calls_, faults_, data.name};
  capturing.capture = &capture;
  const auto end_capture = [&] {
    cudaGraph_t ignored = nullptr;
    const cudaError_t result = cudaStreamEndCapture(stream, &ignored);
    capturing.capture = nullptr;
    return result;
  };
  try {
    std::get<LibraryPart>(node.part).enqueue(Access::stream(state));
  } catch (...) {
    (void)end_capture();
    (void)cudaGetLastError();
    throw;
  }
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* last = nullptr;
  const cudaGraphEdgeData* last_edges = nullptr;
  std::size_t count = 0;
  const cudaError_t info =
      cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, &last_edges, &count);
  Producers& captured = exits_[id];
  if (info == cudaSuccess && status == cudaStreamCaptureStatusActive)
    for (std::size_t at = 0; at < count; ++at)
      captured.add(last[at], last_edges ? last_edges[at] : cudaGraphEdgeData{});
  check(end_capture(), doing);
  check(info, doing);
  is_watched_ = is_watched_ || capture.is_watched;
}

void CudaInstance::finish_updatable_nodes(const GraphData& data) {
  const auto is_node = [](const Symbol& symbol) { return symbol.kind == SymbolKind::node; };
  if (std::none_of(data.symbols.begin(), data.symbols.end(), is_node)) return;
  // A kernel that updates another comes before it, so it was added before the handle was known.
  for (NodeId id = 0; id < data.nodes.size(); ++id) {
    const auto uses = uses_of(data, data.nodes[id]);
    const bool updates = std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      return is_node(data.symbols[use.symbol]);
    });
    if (!updates || !nodes_[id]) continue;
    KernelCall call;
    fill_call(data, id, call);
    check(cudaGraphKernelNodeSetParams(nodes_[id], &call.params), [&] {
      return fmt::format("giving kernel '{}' the node it updates", data.nodes[id].name);
    });
  }
}

void CudaInstance::instantiate(const GraphData& data) {
  cudaGraphInstantiateParams params{};
  if (target_ == Target::device_launch) params.flags |= cudaGraphInstantiateFlagDeviceLaunch;
  if (contents_.has_allocations) params.flags |= cudaGraphInstantiateFlagAutoFreeOnLaunch;
  if (contents_.has_priorities) params.flags |= cudaGraphInstantiateFlagUseNodePriority;
  const cudaError_t result = cudaGraphInstantiateWithParams(&exec_, graph_, &params);
  if (result != cudaSuccess) {
    std::string node = "(the driver names none)";
    for (NodeId id = 0; id < nodes_.size(); ++id)
      if (params.errNode_out && nodes_[id] == params.errNode_out) node = data.nodes[id].name;
    exec_ = nullptr;
    throw DeviceError(fmt::format("the driver refused graph '{}' at node '{}': {}, result {}",
                                  data.name, node, take_error(result),
                                  static_cast<int>(params.result_out)));
  }
  for (NodeId id = 0; id < data.nodes.size(); ++id)
    if (!data.nodes[id].is_enabled && nodes_[id] &&
        !std::holds_alternative<FillPart>(data.nodes[id].part))
      check(cudaGraphNodeSetEnabled(exec_, nodes_[id], 0),
            [&] { return fmt::format("switching off '{}'", data.nodes[id].name); });
}

void CudaInstance::upload() {
  const CurrentDevice current(device_.index());
  if (!side_stream_) side_stream_ = std::make_shared<CudaStream>(device_);
  check(cudaGraphUpload(exec_, side_stream_->get()), "uploading a device graph");
  check(cudaStreamSynchronize(side_stream_->get()));
}

void CudaInstance::launch(StreamImpl& stream) {
  auto& cuda_stream = static_cast<CudaStream&>(stream);
  if (cuda_stream.capture)
    throw BadArgument("a graph launched inside a library call; do it outside, on a Stream");
  const CurrentDevice current(device_.index());
  cuda_stream.refuse_capture("a graph launched");
  if (is_watched_) cuda_stream.faults().watch(faults_, may_launch_);
  check(cudaGraphLaunch(exec_, cuda_stream.enqueuing()), "launching a graph");
}

/// A memset node that the driver was told to skip lets its followers run before its producers have
/// ended (driver 580), so a fill that is switched off stays in the graph and writes to a spare
/// byte.
cudaMemsetParams CudaInstance::fill_params(const GraphData& data, NodeId id) const {
  if (!data.nodes[id].is_enabled) return memset_params(device_.spare_byte(), 0, 1);
  const auto& fill = std::get<FillPart>(data.nodes[id].part);
  return memset_params(resolve(data, fill.to), fill.value, fill.bytes);
}

std::uint64_t CudaInstance::resolve(const GraphData& data, std::uint64_t word) const {
  return relocated(data, word, [&](SymbolId symbol) { return symbol_values_[symbol]; });
}

void* CudaInstance::resolve(const GraphData& data, const void* address) const {
  return reinterpret_cast<void*>(resolve(data, reinterpret_cast<std::uint64_t>(address)));
}

void CudaInstance::fill_call(const GraphData& data, NodeId id, KernelCall& call) {
  const NodeData& node = data.nodes[id];
  const auto& kernel = std::get<KernelPart>(node.part);
  const bool has_stand_ins = !uses_of(data, node).empty();
  if (has_stand_ins) {
    call.args = kernel.args;
    relocate_arguments(data, call.args, HandleKind::cuda,
                       [&](SymbolId symbol) { return symbol_values_[symbol]; });
  }
  if (kernel.info->traits.has_port) call.port = port_of(data, id);
  device_.allow_shared_bytes(*kernel.info, kernel.grid);
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

std::size_t CudaInstance::host_bytes() const {
  return sizeof *this + nodes_.size() * sizeof(cudaGraphNode_t);
}

}  // namespace attacca::cuda
