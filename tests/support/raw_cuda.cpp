// raw_cuda.cpp: see raw_cuda.hpp.
#include "support/raw_cuda.hpp"

#include <stdexcept>

namespace attacca::test {

#if defined(__CUDACC__)

namespace {
__global__ void raw_add_kernel(int* x, int value, std::size_t count) {
  const std::size_t at = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (at < count) x[at] += value;
}
}  // namespace

void launch_raw_add(void* cuda_stream, int* x, int value, std::size_t count) {
  const auto blocks = static_cast<unsigned>((count + 63) / 64);
  raw_add_kernel<<<blocks, 64, 0, static_cast<cudaStream_t>(cuda_stream)>>>(x, value, count);
  if (cudaGetLastError() != cudaSuccess) throw std::runtime_error("raw_add_kernel: not launched");
}

#else

void launch_raw_add(void*, int*, int, std::size_t) {
  throw std::logic_error("launch_raw_add: built without CUDA");
}

#endif

}  // namespace attacca::test
