// graph_builder.cpp: adds the nodes of a lowered graph to a cudaGraph_t, producers first. The graph
// is valid; errors from the driver are reported with the node's name.
#include "backend/cuda/graph_builder.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "backend/cuda/capture_mode.hpp"
#include "backend/cuda/check.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/l2.hpp"
#include "backend/cuda/lead.hpp"
#include "backend/cuda/library_capture.hpp"
#include "backend/cuda/producers.hpp"
#include "backend/cuda/settle.hpp"
#include "graph/executor.hpp"
#include "graph/lower.hpp"
#include "graph/parameters.hpp"
#include "graph/uses.hpp"

namespace attacca::cuda {

using namespace graph;
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

bool launches(const NodeData& node) {
  const auto* kernel = std::get_if<KernelPart>(&node.part);
  return kernel && kernel->info->traits.launches;
}

bool spawns(const NodeData& node) {
  const auto* kernel = std::get_if<KernelPart>(&node.part);
  return kernel && kernel->info->traits.spawns;
}

bool is_kernel_root(const GraphData& data, const LoweredNode& node) {
  return node.deps.empty() && std::holds_alternative<KernelPart>(data.nodes[node.id].part);
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

class GraphBuilder {
 public:
  GraphBuilder(BuiltGraph& built, const GraphData& data, std::shared_ptr<CudaStream>& side_stream)
      : built_(built), data_(data), lowered_(lower(data)), side_stream_(side_stream) {}

  void run();

 private:
  /// `side_stream` captures library calls, and is made at the first one.
  void add_scope(const LoweredScope& scope, cudaGraph_t into,
                 std::shared_ptr<CudaStream>& side_stream);
  /// Behind producers_.
  void add_node(const LoweredNode& lowered, cudaGraph_t into);
  void add_settling(NodeId id, cudaGraph_t into);
  /// The general form of a copy has a pitch, which is less than 2 GiB.
  cudaError_t add_large_copy(cudaGraphNode_t& made, cudaGraph_t into, void* to, const void* from,
                             std::size_t bytes);
  /// Where enough kernels of the graph wait for nothing.
  void add_lead();
  void find_producers(const LoweredNode& node);
  /// `call` must outlive the result.
  cudaGraphNodeParams node_params(NodeId id, KernelCall& call);
  void set_attributes(NodeId id, cudaGraphNode_t made);
  void finish_updatable_nodes();

  BuiltGraph& built_;
  const GraphData& data_;
  const Lowered lowered_;
  std::shared_ptr<CudaStream>& side_stream_;
  Producers producers_;                          // of the node being added
  std::unordered_map<NodeId, Producers> exits_;  // nodes to depend on instead, where those differ
  cudaGraphNode_t reset_counts_ = nullptr;
  cudaGraphNode_t lead_ = nullptr;
};

void GraphBuilder::run() {
  check(cudaGraphCreate(&built_.native, 0),
        [&] { return fmt::format("creating graph '{}'", data_.name); });
  for (SymbolId id = 0; id < data_.symbols.size(); ++id)
    if (data_.symbols[id].kind == SymbolKind::condition) {
      cudaGraphConditionalHandle handle{};
      check(cudaGraphConditionalHandleCreate(&handle, built_.native, data_.symbols[id].initial,
                                             cudaGraphCondAssignDefault),
            [&] { return fmt::format("making condition '{}'", data_.symbols[id].name); });
      built_.symbol_values[id] = handle;
    }
  if (built_.contents.launching_kernels > 1 || !data_.launch_sites.empty()) {
    // Several kernels share one budget, so it lives in memory and starts from zero each time. A
    // launch that is recorded takes the same, slower path.
    check(cudaMalloc(&built_.shared_counts, sizeof(LaunchCounts)));
    const cudaMemsetParams params = memset_params(built_.shared_counts, 0, sizeof(LaunchCounts));
    check(cudaGraphAddMemsetNode(&reset_counts_, built_.native, nullptr, 0, &params));
  }
  const CaptureMode relaxed(cudaStreamCaptureModeRelaxed);  // a capture may be open from now on
  if (built_.target == Target::host_launch) add_lead();
  add_scope(lowered_.root, built_.native, side_stream_);
  finish_updatable_nodes();
}

void GraphBuilder::add_scope(const LoweredScope& scope, cudaGraph_t into,
                             std::shared_ptr<CudaStream>& side_stream) {
  std::optional<LibraryCapture> capture;
  for (const LoweredNode& node : scope.nodes) {
    find_producers(node);
    if (lead_ && into == built_.native && is_kernel_root(data_, node)) producers_.add(lead_, {});
    if (!std::holds_alternative<LibraryPart>(data_.nodes[node.id].part)) {
      add_node(node, into);
      continue;
    }
    if (!side_stream) side_stream = std::make_shared<CudaStream>(built_.device);
    if (!capture) capture.emplace(built_, data_.name, into, side_stream);
    exits_[node.id] = capture->add(data_.nodes[node.id], producers_);
  }
  if (capture) capture->end();
}

void GraphBuilder::add_lead() {
  const auto& nodes = lowered_.root.nodes;
  const auto roots = std::count_if(nodes.begin(), nodes.end(), [&](const LoweredNode& node) {
    return is_kernel_root(data_, node);
  });
  if (static_cast<std::size_t>(roots) < kRootsWithLead) return;
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = const_cast<void*>(lead_kernel());
  params.kernel.gridDim = dim3(1);
  params.kernel.blockDim = dim3(1);
  check(cudaGraphAddNode(&lead_, built_.native, nullptr, nullptr, 0, &params),
        [&] { return fmt::format("adding the node that leads graph '{}'", data_.name); });
}

void GraphBuilder::find_producers(const LoweredNode& node) {
  producers_.clear();
  for (const Edge& edge : node.deps) {
    const auto exits = exits_.find(edge.from);
    if (exits == exits_.end()) {
      producers_.add(built_.nodes[edge.from], edge_data(edge.kind));
      continue;
    }
    for (std::size_t at = 0; at < exits->second.nodes.size(); ++at)
      producers_.add(exits->second.nodes[at], exits->second.edges[at]);
  }
}

void GraphBuilder::add_node(const LoweredNode& lowered, cudaGraph_t into) {
  const NodeData& node = data_.nodes[lowered.id];
  if (reset_counts_ && launches(node)) producers_.add(reset_counts_, {});
  const bool is_spawning = spawns(node);
  if (is_spawning) {
    unsigned*& word = built_.pending[lowered.id];
    word = zeroed_word().release();
  }
  KernelCall call;
  cudaGraphNodeParams params = node_params(lowered.id, call);
  cudaGraphNode_t& made = built_.nodes[lowered.id];
  const auto* kernel = std::get_if<KernelPart>(&node.part);
  const auto* copy = std::get_if<CopyPart>(&node.part);
  check(kernel && is_driver_function(*kernel->info)
            ? driver_add_kernel_node(made, into, producers_.nodes.data(), producers_.edge_data(),
                                     producers_.nodes.size(), call.params)
        : copy && copy->rows == 1 && copy->bytes > kMaxPitch
            ? add_large_copy(made, into, built_.resolve(data_, copy->to),
                             built_.resolve(data_, copy->from), copy->bytes)
            : cudaGraphAddNode(&made, into, producers_.nodes.data(), producers_.edge_data(),
                               producers_.nodes.size(), &params),
        [&] {
          return fmt::format("adding {} '{}' to graph '{}'", kind_name(node), node.name,
                             data_.name);
        });

  if (std::holds_alternative<KernelPart>(node.part)) {
    set_attributes(lowered.id, made);
    if (is_spawning) add_settling(lowered.id, into);
  } else if (const auto* allocate = std::get_if<AllocatePart>(&node.part)) {
    built_.symbol_values[allocate->symbol] = reinterpret_cast<std::uint64_t>(params.alloc.dptr);
  } else if (const auto* conditional = std::get_if<ConditionalPart>(&node.part)) {
    for (std::size_t at = 0; at < conditional->bodies.size(); ++at) {
      std::shared_ptr<CudaStream> own;  // the outer one may be captured
      add_scope(lowered_.bodies[conditional->bodies[at]], params.conditional.phGraph_out[at], own);
    }
  }
}

cudaError_t GraphBuilder::add_large_copy(cudaGraphNode_t& made, cudaGraph_t into, void* to,
                                         const void* from, std::size_t bytes) {
  const cudaError_t result =
      cudaGraphAddMemcpyNode1D(&made, into, nullptr, 0, to, from, bytes, cudaMemcpyDefault);
  if (result != cudaSuccess || producers_.nodes.empty()) return result;
  const std::vector<cudaGraphNode_t> consumers(producers_.nodes.size(), made);
  return cudaGraphAddDependencies(into, producers_.nodes.data(), consumers.data(),
                                  producers_.edge_data(), producers_.nodes.size());
}

void GraphBuilder::add_settling(NodeId id, cudaGraph_t into) {
  attacca::detail::LaunchPort port = built_.port_of(data_, id);
  void* parameters[] = {&port};
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = const_cast<void*>(settle_kernel());
  params.kernel.gridDim = dim3(1);
  params.kernel.blockDim = dim3(1);
  params.kernel.kernelParams = parameters;
  cudaGraphNode_t made = nullptr;
  check(cudaGraphAddNode(&made, into, &built_.nodes[id], nullptr, 1, &params), [&] {
    return fmt::format("adding the node that waits for what '{}' spawns", data_.nodes[id].name);
  });
  exits_[id].add(made, {});
}

cudaGraphNodeParams GraphBuilder::node_params(NodeId id, KernelCall& call) {
  const NodeData& node = data_.nodes[id];
  cudaGraphNodeParams params{};
  if (std::holds_alternative<KernelPart>(node.part)) {
    built_.prepare_call(data_, id, call);
    params.type = cudaGraphNodeTypeKernel;
    params.kernel.func = call.params.func;
    params.kernel.gridDim = call.params.gridDim;
    params.kernel.blockDim = call.params.blockDim;
    params.kernel.sharedMemBytes = call.params.sharedMemBytes;
    params.kernel.kernelParams = call.params.kernelParams;
  } else if (const auto* copy = std::get_if<CopyPart>(&node.part)) {
    params.type = cudaGraphNodeTypeMemcpy;
    params.memcpy.copyParams =
        memcpy_params(built_.resolve(data_, copy->to), built_.resolve(data_, copy->from), *copy);
  } else if (std::holds_alternative<FillPart>(node.part)) {
    params.type = cudaGraphNodeTypeMemset;
    const cudaMemsetParams p = built_.fill_params(data_, id);
    params.memset.dst = p.dst;
    params.memset.value = p.value;
    params.memset.elementSize = p.elementSize;
    params.memset.width = p.width;
    params.memset.height = p.height;
  } else if (const auto* host = std::get_if<HostPart>(&node.part)) {
    built_.is_watched = true;
    built_.calls.push_back(
        std::make_unique<HostCall>(node.name, data_.name, host->call, built_.faults));
    params.type = cudaGraphNodeTypeHost;
    params.host.fn = &HostCall::run;
    params.host.userData = built_.calls.back().get();
  } else if (const auto* allocate = std::get_if<AllocatePart>(&node.part)) {
    params.type = cudaGraphNodeTypeMemAlloc;
    params.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    params.alloc.poolProps.location = {cudaMemLocationTypeDevice, built_.device.index()};
    params.alloc.bytesize = data_.symbols[allocate->symbol].bytes;
  } else if (const auto* free = std::get_if<FreePart>(&node.part)) {
    params.type = cudaGraphNodeTypeMemFree;
    params.free.dptr = built_.resolve(data_, free->address);
  } else if (const auto* conditional = std::get_if<ConditionalPart>(&node.part)) {
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = built_.resolve(data_, conditional->condition);
    params.conditional.type = conditional->kind == ConditionalKind::while_ ? cudaGraphCondTypeWhile
                              : conditional->kind == ConditionalKind::if_  ? cudaGraphCondTypeIf
                                                                          : cudaGraphCondTypeSwitch;
    params.conditional.size = static_cast<unsigned>(conditional->bodies.size());
  }
  return params;
}

void GraphBuilder::set_attributes(NodeId id, cudaGraphNode_t made) {
  const NodeData& node = data_.nodes[id];
  const auto& kernel = std::get<KernelPart>(node.part);
  const auto set = [&](cudaLaunchAttributeID attribute, cudaLaunchAttributeValue value) {
    check(cudaGraphKernelNodeSetAttribute(made, attribute, &value), [&] {
      return fmt::format("setting attribute {} of kernel '{}'", static_cast<int>(attribute),
                         node.name);
    });
  };
  if (const auto adopted = data_.adopted_kernels.find(id); adopted != data_.adopted_kernels.end())
    check(
        cudaGraphKernelNodeCopyAttributes(made, static_cast<cudaGraphNode_t>(adopted->second.node)),
        [&] { return fmt::format("copying the attributes of kernel '{}'", node.name); });
  cudaLaunchAttributeValue value{};
  if (node.priority != 0) {
    value.priority = built_.device.driver_priority(node.priority);
    set(cudaLaunchAttributePriority, value);
  }
  const L2Window* window = data_.find_l2_window(node);
  if (window && has_effect(*window, built_.device.l2_cache())) {
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
    for (SymbolId symbol = 0; symbol < data_.symbols.size(); ++symbol)
      if (data_.symbols[symbol].kind == SymbolKind::node && data_.symbols[symbol].owner == id)
        built_.symbol_values[symbol] =
            reinterpret_cast<std::uint64_t>(value.deviceUpdatableKernelNode.devNode);
  }
}

void GraphBuilder::finish_updatable_nodes() {
  const auto is_node = [](const Symbol& symbol) { return symbol.kind == SymbolKind::node; };
  if (std::none_of(data_.symbols.begin(), data_.symbols.end(), is_node)) return;
  // A kernel that updates another comes before it, so it was added before the handle was known.
  for (NodeId id = 0; id < data_.nodes.size(); ++id) {
    const auto uses = uses_of(data_, data_.nodes[id]);
    const bool updates = std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      return is_node(data_.symbols[use.symbol]);
    });
    if (!updates || !built_.nodes[id]) continue;
    KernelCall call;
    built_.prepare_call(data_, id, call);
    check(cudaGraphKernelNodeSetParams(built_.nodes[id], &call.params), [&] {
      return fmt::format("giving kernel '{}' the node it updates", data_.nodes[id].name);
    });
  }
}

}  // namespace

void build_graph(BuiltGraph& built, const GraphData& data,
                 std::shared_ptr<CudaStream>& side_stream) {
  GraphBuilder(built, data, side_stream).run();
}

}  // namespace attacca::cuda
