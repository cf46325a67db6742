// driver.hpp: the few calls of the driver API that we need. For adopted graphs: the runtime knows
// only the kernels that it registered itself, and the driver also knows kernels of libraries that
// have a runtime of their own (PyTorch, cuBLAS, Triton). For streams: waits for a word in memory.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

namespace attacca::cuda {

/// A kernel node as the driver has it. `params.func` is set; arguments are owned by the node.
CUDA_KERNEL_NODE_PARAMS_v2 driver_kernel_params(cudaGraphNode_t node);

struct DriverParameter {
  std::uint32_t offset;  // in the buffer that `extra` passes
  std::uint32_t size;
};
std::vector<DriverParameter> driver_parameters(CUfunction function);
std::string driver_name(CUfunction function);

/// Like the runtime's calls, for a `params.func` that is a CUfunction.
cudaError_t driver_add_kernel_node(cudaGraphNode_t& made, cudaGraph_t into,
                                   const cudaGraphNode_t* producers, const cudaGraphEdgeData* edges,
                                   std::size_t count, const cudaKernelNodeParams& params);
cudaError_t driver_set_kernel_params(cudaGraphExec_t exec, cudaGraphNode_t node,
                                     const cudaKernelNodeParams& params);

}  // namespace attacca::cuda
