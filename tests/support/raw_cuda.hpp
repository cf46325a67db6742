// raw_cuda.hpp: plain CUDA code beside the library: a kernel for capture_cuda, the current device.
#pragma once

#include <cstddef>

namespace attacca::test {

/// Enqueues x[i] += value on a cudaStream_t. Throws in a build without CUDA.
void launch_raw_add(void* cuda_stream, int* x, int value, std::size_t count);

/// The calling thread's device, as plain CUDA code selects it and sees it. Throw without CUDA.
void select_raw_device(int index);
int current_raw_device();

}  // namespace attacca::test
