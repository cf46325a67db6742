// driver.cpp: calls the driver API. Its functions are looked up through the runtime, so nothing
// links against libcuda, which a machine without a GPU does not have.
#include "backend/cuda/driver.hpp"

#include <cudaTypedefs.h>
#include <fmt/core.h>

#include "backend/cuda/check.hpp"

namespace attacca::cuda {

namespace {

template <class Function>
Function entry(const char* name, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found),
        [&] { return fmt::format("asking the driver for {}", name); });
  if (found != cudaDriverEntryPointSuccess || !function)
    throw DeviceError(
        fmt::format("the driver has no {}; install one for CUDA 12.4 or later", name));
  return reinterpret_cast<Function>(function);
}

/// Where the runtime and the driver both have an error, it has the same number in both.
cudaError_t as_runtime_error(CUresult result) { return static_cast<cudaError_t>(result); }

CUDA_KERNEL_NODE_PARAMS_v2 to_driver(const cudaKernelNodeParams& params) {
  CUDA_KERNEL_NODE_PARAMS_v2 result{};
  result.func = static_cast<CUfunction>(params.func);
  result.gridDimX = params.gridDim.x;
  result.gridDimY = params.gridDim.y;
  result.gridDimZ = params.gridDim.z;
  result.blockDimX = params.blockDim.x;
  result.blockDimY = params.blockDim.y;
  result.blockDimZ = params.blockDim.z;
  result.sharedMemBytes = params.sharedMemBytes;
  result.kernelParams = params.kernelParams;
  return result;
}

}  // namespace

CUDA_KERNEL_NODE_PARAMS_v2 driver_kernel_params(cudaGraphNode_t node) {
  static const auto get =
      entry<PFN_cuGraphKernelNodeGetParams_v12000>("cuGraphKernelNodeGetParams", 12000);
  static const auto function_of =
      entry<PFN_cuKernelGetFunction_v12000>("cuKernelGetFunction", 12000);
  CUDA_KERNEL_NODE_PARAMS_v2 params{};
  check(as_runtime_error(get(node, &params)), "reading a kernel node");
  if (!params.func)
    check(as_runtime_error(function_of(&params.func, params.kern)),
          "reading a kernel node's function");
  return params;
}

std::vector<DriverParameter> driver_parameters(CUfunction function) {
  static const auto get = entry<PFN_cuFuncGetParamInfo_v12040>("cuFuncGetParamInfo", 12040);
  std::vector<DriverParameter> parameters;
  for (;;) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = get(function, parameters.size(), &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) return parameters;  // that was the last
    check(as_runtime_error(result), "reading a kernel's parameters");
    parameters.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
  }
}

std::string driver_name(CUfunction function) {
  static const auto get = entry<PFN_cuFuncGetName_v12030>("cuFuncGetName", 12030);
  const char* name = nullptr;
  check(as_runtime_error(get(&name, function)), "reading a kernel's name");
  return name ? name : "kernel";
}

cudaError_t driver_add_kernel_node(cudaGraphNode_t& made, cudaGraph_t into,
                                   const cudaGraphNode_t* producers, const cudaGraphEdgeData* edges,
                                   std::size_t count, const cudaKernelNodeParams& params) {
  static const auto add = entry<PFN_cuGraphAddNode_v12030>("cuGraphAddNode", 12030);
  static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData));
  const CUDA_KERNEL_NODE_PARAMS_v2 kernel = to_driver(params);
  CUgraphNodeParams node{};
  node.type = CU_GRAPH_NODE_TYPE_KERNEL;
  node.kernel.func = kernel.func;
  node.kernel.gridDimX = kernel.gridDimX;
  node.kernel.gridDimY = kernel.gridDimY;
  node.kernel.gridDimZ = kernel.gridDimZ;
  node.kernel.blockDimX = kernel.blockDimX;
  node.kernel.blockDimY = kernel.blockDimY;
  node.kernel.blockDimZ = kernel.blockDimZ;
  node.kernel.sharedMemBytes = kernel.sharedMemBytes;
  node.kernel.kernelParams = kernel.kernelParams;
  return as_runtime_error(
      add(&made, into, producers, reinterpret_cast<const CUgraphEdgeData*>(edges), count, &node));
}

cudaError_t driver_set_kernel_params(cudaGraphExec_t exec, cudaGraphNode_t node,
                                     const cudaKernelNodeParams& params) {
  static const auto set =
      entry<PFN_cuGraphExecKernelNodeSetParams_v12000>("cuGraphExecKernelNodeSetParams", 12000);
  const CUDA_KERNEL_NODE_PARAMS_v2 kernel = to_driver(params);
  return as_runtime_error(set(exec, node, &kernel));
}

}  // namespace attacca::cuda
