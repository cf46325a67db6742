// parameters.hpp: the parameters of a plain CUDA kernel (attacca/cuda_kernel.hpp) and their offsets
// among a node's argument bytes.
#pragma once

#include <atomic>
#include <attacca/cuda_kernel.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attacca::detail {

struct ParameterList {
  std::vector<std::uint32_t> sizes;
  std::vector<std::uint32_t> offsets;
  bool is_driver_function = false;              // KernelInfo::cuda is a CUfunction
  mutable std::atomic<bool> is_checked{false};  // sizes were compared with the function's own
};

}  // namespace attacca::detail

namespace attacca::graph {

/// As detail::cuda_kernel_info, also for a CUfunction. Lives as long as the program.
const KernelInfo& plain_kernel_info(const std::string& name, const void* function,
                                    std::span<const std::uint32_t> sizes,
                                    const CudaKernelTraits& traits, bool is_driver_function);

/// Whether `kernel.cuda` is a CUfunction, which only the driver knows, not the runtime.
inline bool is_driver_function(const KernelInfo& kernel) {
  return kernel.parameters && kernel.parameters->is_driver_function;
}

}  // namespace attacca::graph
