// raw_cuda.hpp: a plain CUDA kernel launched the plain CUDA way, for capture_cuda.
#pragma once

#include <cstddef>

namespace attacca::test {

/// Enqueues x[i] += value on a cudaStream_t. Throws in a build without CUDA.
void launch_raw_add(void* cuda_stream, int* x, int value, std::size_t count);

}  // namespace attacca::test
