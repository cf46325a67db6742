// adopt.cpp: a cudaGraph_t read back into graph data. Types are checked first, since the driver
// clones no graph with memory nodes or conditionals; then a clone is read, which keeps the kernels'
// attributes for as long as the graph lives.
#include <cxxabi.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/driver.hpp"
#include "graph/parameters.hpp"

namespace attacca::cuda {

using namespace graph;

namespace {

const char* type_name(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeHost:
      return "host call";
    case cudaGraphNodeTypeWaitEvent:
      return "wait for an event";
    case cudaGraphNodeTypeEventRecord:
      return "record of an event";
    case cudaGraphNodeTypeExtSemaphoreSignal:
    case cudaGraphNodeTypeExtSemaphoreWait:
      return "semaphore";
    case cudaGraphNodeTypeMemAlloc:
      return "memory allocation";
    case cudaGraphNodeTypeMemFree:
      return "free of memory";
    case cudaGraphNodeTypeConditional:
      return "conditional";
    default:
      return "node of an unknown type";
  }
}

/// The short name of a kernel: "void ns::scale<4>(float*, int)" gives "ns::scale<4>".
std::string spoken_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  if (status != 0 || !demangled) return mangled;
  std::string name = demangled.get();
  if (name.ends_with(')')) {  // the parameters: back to the bracket that opened
    std::size_t at = name.size();
    int depth = 0;
    while (at-- > 0) {
      depth += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
      if (depth == 0) break;
    }
    if (at != 0) name.resize(at);
  }
  return name.starts_with("void ") ? name.substr(5) : name;
}

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "reading a graph's nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count != 0) check(cudaGraphGetNodes(graph, nodes.data(), &count), "reading a graph's nodes");
  return nodes;
}

cudaGraphNodeType type_of(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  check(cudaGraphNodeGetType(node, &type), "reading a node's type");
  return type;
}

cudaGraph_t child_of(cudaGraphNode_t node) {
  cudaGraph_t child = nullptr;
  check(cudaGraphChildGraphNodeGetGraph(node, &child), "reading a child graph");
  return child;
}

[[noreturn]] void refuse(const Graph& graph, std::size_t number, const std::string& what) {
  throw BadArgument(
      fmt::format("adopting '{}': node {} is {}, which cannot be taken over as a node; put the "
                  "graph into a library node with capture_cuda, or leave that node out",
                  graph.name(), number, what));
}

void check_types(cudaGraph_t graph, const Graph& into) {
  const std::vector<cudaGraphNode_t> nodes = nodes_of(graph);
  for (std::size_t at = 0; at < nodes.size(); ++at) switch (type_of(nodes[at])) {
      case cudaGraphNodeTypeKernel:
      case cudaGraphNodeTypeMemcpy:
      case cudaGraphNodeTypeMemset:
      case cudaGraphNodeTypeEmpty:
        break;
      case cudaGraphNodeTypeGraph:
        check_types(child_of(nodes[at]), into);
        break;
      default:
        refuse(into, at, fmt::format("a {}", type_name(type_of(nodes[at]))));
    }
}

/// Reads one cudaGraph_t, child graphs included, into a Graph.
class Adopter {
 public:
  explicit Adopter(std::shared_ptr<void> clone) : clone_(std::move(clone)) {}

  void read(cudaGraph_t graph, Graph& into) {
    struct Between {
      std::size_t from, to;
      EdgeKind kind;
    };
    const std::vector<cudaGraphNode_t> nodes = nodes_of(graph);
    std::unordered_map<cudaGraphNode_t, std::size_t> place;
    for (std::size_t at = 0; at < nodes.size(); ++at) place[nodes[at]] = at;

    std::size_t count = 0;
    check(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), "reading a graph's edges");
    std::vector<cudaGraphNode_t> from(count), to(count);
    std::vector<cudaGraphEdgeData> edge_data(count);
    if (count != 0)
      check(cudaGraphGetEdges(graph, from.data(), to.data(), edge_data.data(), &count),
            "reading a graph's edges");
    std::vector<Between> edges;
    std::vector<bool> waits(nodes.size());
    for (std::size_t at = 0; at < count; ++at) {
      // A node that waits for a kernel's launch may wait for its end instead.
      const bool is_programmatic = edge_data[at].type == cudaGraphDependencyTypeProgrammatic &&
                                   edge_data[at].from_port == cudaGraphKernelNodePortProgrammatic;
      edges.push_back({place.at(from[at]), place.at(to[at]),
                       is_programmatic ? EdgeKind::programmatic : EdgeKind::full});
      if (is_programmatic) waits[place.at(to[at])] = true;
    }

    std::vector<NodeId> ids;
    for (std::size_t at = 0; at < nodes.size(); ++at)
      ids.push_back(add(nodes[at], at, waits[at], into));
    for (const Between& edge : edges)
      data_of(into).nodes[ids[edge.to]].deps.push_back({ids[edge.from], edge.kind});
  }

 private:
  NodeId add(cudaGraphNode_t node, std::size_t number, bool waits, Graph& into) {
    switch (type_of(node)) {
      case cudaGraphNodeTypeKernel:
        return add_kernel(node, number, waits, into);
      case cudaGraphNodeTypeMemcpy:
        return add_copy(node, number, into);
      case cudaGraphNodeTypeMemset:
        return add_fill(node, number, into);
      case cudaGraphNodeTypeGraph:
        return into.child("child", [&](Graph& inside) { read(child_of(node), inside); }).id();
      default:
        return into.child("empty", [](Graph&) {}).id();
    }
  }

  NodeId add_kernel(cudaGraphNode_t node, std::size_t number, bool waits, Graph& into) {
    const CUDA_KERNEL_NODE_PARAMS_v2 params = driver_kernel_params(node);
    const std::vector<DriverParameter> parameters = driver_parameters(params.func);
    std::vector<std::uint32_t> sizes;
    for (const DriverParameter& parameter : parameters) sizes.push_back(parameter.size);
    CudaKernelTraits traits;
    traits.waits = waits;
    const std::string name = spoken_name(driver_name(params.func));
    const KernelInfo& info = plain_kernel_info(name, params.func, sizes, traits, true);
    std::vector<std::byte> args(info.args_size);
    const std::byte* buffer = params.kernelParams ? nullptr : argument_buffer(params);
    if (!params.kernelParams && !buffer && !parameters.empty())
      refuse(into, number, fmt::format("kernel '{}', whose arguments are not told", info.name));
    for (std::size_t at = 0; at < parameters.size(); ++at)
      std::memcpy(args.data() + info.parameters->offsets[at],
                  buffer ? buffer + parameters[at].offset : params.kernelParams[at],
                  parameters[at].size);
    const Grid grid{{params.gridDimX, params.gridDimY, params.gridDimZ},
                    {params.blockDimX, params.blockDimY, params.blockDimZ},
                    params.sharedMemBytes};
    const NodeId id = Access::add_kernel(into, info, grid, args.data()).id();
    cudaLaunchAttributeValue value{};
    check(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &value),
          "reading a kernel's priority");
    data_of(into).nodes[id].priority = -value.priority;
    data_of(into).adopted_kernels[id] = {clone_, node};
    return id;
  }

  /// The arguments of a kernel that got them as one buffer; null where it did not.
  static const std::byte* argument_buffer(const CUDA_KERNEL_NODE_PARAMS_v2& params) {
    for (void** at = params.extra; at && *at != CU_LAUNCH_PARAM_END; at += 2)
      if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) return static_cast<const std::byte*>(at[1]);
    return nullptr;
  }

  static NodeId add_copy(cudaGraphNode_t node, std::size_t number, Graph& into) {
    cudaMemcpy3DParms params{};
    check(cudaGraphMemcpyNodeGetParams(node, &params), "reading a copy");
    if (params.srcArray || params.dstArray) refuse(into, number, "a copy of an array");
    if (params.extent.depth > 1) refuse(into, number, "a copy of three dimensions");
    const auto start = [](const cudaPitchedPtr& memory, const cudaPos& at) {
      return static_cast<std::byte*>(memory.ptr) + (at.z * memory.ysize + at.y) * memory.pitch +
             at.x;
    };
    std::byte* to = start(params.dstPtr, params.dstPos);
    const std::byte* from = start(params.srcPtr, params.srcPos);
    if (params.extent.height <= 1) return into.copy(to, from, params.extent.width).id();
    return into
        .copy_2d({to, params.dstPtr.pitch}, {from, params.srcPtr.pitch}, params.extent.width,
                 params.extent.height)
        .id();
  }

  static NodeId add_fill(cudaGraphNode_t node, std::size_t number, Graph& into) {
    cudaMemsetParams params{};
    check(cudaGraphMemsetNodeGetParams(node, &params), "reading a fill");
    const std::size_t row = params.width * params.elementSize;
    const unsigned byte = params.value & 0xffu;
    bool is_one_byte = true;
    for (unsigned at = 1; at < params.elementSize; ++at)
      is_one_byte = is_one_byte && (params.value >> (8 * at) & 0xffu) == byte;
    const std::size_t rows = std::max<std::size_t>(params.height, 1);
    if (!is_one_byte || (rows > 1 && params.pitch != row))
      refuse(into, number, "a fill with more than one byte, or of rows with gaps");
    return into.fill(params.dst, static_cast<std::uint8_t>(byte), row * rows).id();
  }

  std::shared_ptr<void> clone_;
};

}  // namespace

void CudaDevice::adopt(void* native_graph, Graph& into) {
  const CurrentDevice current(index());
  auto* const graph = static_cast<cudaGraph_t>(native_graph);
  check_types(graph, into);
  cudaGraph_t clone = nullptr;
  check(cudaGraphClone(&clone, graph),
        [&] { return fmt::format("cloning the graph that '{}' adopts", into.name()); });
  const std::shared_ptr<void> owner(clone, [](void* gone) {
    (void)cudaGraphDestroy(static_cast<cudaGraph_t>(gone));
    (void)cudaGetLastError();
  });
  Adopter(owner).read(clone, into);
}

}  // namespace attacca::cuda
