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

void select_raw_device(int index) {
  if (cudaSetDevice(index) != cudaSuccess) throw std::runtime_error("cudaSetDevice failed");
}
int current_raw_device() {
  int index = -1;
  if (cudaGetDevice(&index) != cudaSuccess) throw std::runtime_error("cudaGetDevice failed");
  return index;
}

#else

void launch_raw_add(void*, int*, int, std::size_t) {
  throw std::logic_error("launch_raw_add: built without CUDA");
}

void select_raw_device(int) { throw std::logic_error("select_raw_device: built without CUDA"); }
int current_raw_device() { throw std::logic_error("current_raw_device: built without CUDA"); }

#endif

}  // namespace attacca::test
