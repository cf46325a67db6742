// cuda_kernel.hpp: a kernel that was not written for attacca: a plain __global__ function or a
// cudaKernel_t, with its parameters typed. Graphs, streams and execs take it as they take a Kernel:
//
//   __global__ void saxpy(float a, const float* x, float* y, int count);
//
//   const auto kernel = cuda_kernel("saxpy", &saxpy);
//   auto node = graph.kernel(kernel, Grid::covering(n), 2.0f, x, y, n);
//   exec.set(node, 3.0f, x, y, n);
//
// It has no host body: a graph that holds it is refused on a host device, by name. This header
// needs no CUDA.
#pragma once

#include <array>
#include <attacca/kernel.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace attacca {

/// The behaviour of a plain CUDA kernel that graphs must know.
struct CudaKernelTraits {
  bool waits = false;           // calls cudaGridDependencySynchronize: may be after_programmatic
  bool is_cooperative = false;  // its blocks wait for each other (cooperative groups' grid.sync)
};

namespace detail {

/// The one KernelInfo for these values. Throws BadArgument for a null function.
const KernelInfo& cuda_kernel_info(const std::string& name, const void* function,
                                   std::span<const std::uint32_t> sizes,
                                   const CudaKernelTraits& traits);

/// The bytes that a parameter takes among a node's arguments, a multiple of 16: aligned for every
/// type, and a condition passed as the 8 bytes of its `target()` leaves room for the mark that
/// relocation writes.
constexpr std::size_t parameter_slot(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

/// Parameters side by side, each in its slot.
template <class... P>
class PackedParameters {
  static_assert((std::is_trivially_copyable_v<P> && ...),
                "kernel parameters cross to the device as bytes: make them trivially copyable");

 public:
  static constexpr std::array<std::uint32_t, sizeof...(P)> kSizes{std::uint32_t{sizeof(P)}...};
  static constexpr std::size_t kBytes = (parameter_slot(sizeof(P)) + ... + 0);

  explicit PackedParameters(const P&... values) {
    [[maybe_unused]] std::size_t at = 0;
    ((std::memcpy(bytes_ + at, std::addressof(values), sizeof(P)), at += parameter_slot(sizeof(P))),
     ...);
  }
  const void* data() const { return bytes_; }

 private:
  alignas(16) std::byte bytes_[kBytes == 0 ? 1 : kBytes] = {};
};

}  // namespace detail

/// A plain CUDA kernel with parameters of types P. A cheap value, valid while the function is
/// loaded. Arguments convert to P as in a call; others do not compile.
template <class... P>
class CudaKernel {
 public:
  constexpr explicit CudaKernel(const KernelInfo& info) : info_(&info) {}
  constexpr const KernelInfo& info() const { return *info_; }

 private:
  const KernelInfo* info_;
};

/// Makes it from a `__global__` function, with that function's parameters.
template <class... P>
CudaKernel<P...> cuda_kernel(const std::string& name, void (*function)(P...),
                             const CudaKernelTraits& traits = {}) {
  return CudaKernel<P...>(detail::cuda_kernel_info(name, reinterpret_cast<const void*>(function),
                                                   detail::PackedParameters<P...>::kSizes, traits));
}

/// Makes it from a cudaKernel_t, or a `__global__` function as `const void*`:
/// cuda_kernel<float*, int>(…).
/// Instantiation refuses parameters whose number or sizes are not the function's.
template <class... P>
CudaKernel<P...> cuda_kernel(const std::string& name, const void* kernel,
                             const CudaKernelTraits& traits = {}) {
  return CudaKernel<P...>(
      detail::cuda_kernel_info(name, kernel, detail::PackedParameters<P...>::kSizes, traits));
}

}  // namespace attacca
