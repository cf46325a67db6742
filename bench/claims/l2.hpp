// l2.hpp: the kernels of l2.cu: stencils with L2 hints, and data used repeatedly beside data used
// once. Each launcher returns the launch's error code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bench::l2 {

inline constexpr unsigned kTile = 4096;  // elements of a block

/// A stencil applied twice: forward from `in` to `scratch`, first block first, then backward from
/// `scratch` to `out`, last block first. Arrays of `count` elements, a multiple of kTile.
struct Sweeps {
  const float* in;
  float* scratch;
  float* out;
  std::uint64_t count;
  bool streams;   // reads of `in` and writes of `out` leave L2 first
  bool discards;  // lines of `scratch` are given up once they are read
};
cudaError_t launch_forward(const Sweeps& sweeps, cudaStream_t stream);
cudaError_t launch_backward(const Sweeps& sweeps, cudaStream_t stream);
/// Gives `in` values that two sweeps keep exact.
cudaError_t launch_set_input(float* in, std::uint64_t count, cudaStream_t stream);
/// Adds to *wrong the number of elements of `out` that differ from two sweeps over `in`.
cudaError_t launch_count_wrong(const Sweeps& sweeps, unsigned* wrong, cudaStream_t stream);

/// cold[i] += hot[i % hot_count]: data used again and again beside data used once. Elements are of
/// 16 bytes; both counts are multiples of 256.
struct Reuse {
  const uint4* hot;
  uint4* cold;
  std::uint64_t hot_count;
  std::uint64_t cold_count;
};
cudaError_t launch_reuse(const Reuse& reuse, cudaStream_t stream);
cudaError_t launch_set_hot(uint4* hot, std::uint64_t count, cudaStream_t stream);
/// Adds to *wrong the number of elements of `cold` that are not `times` those of `hot`.
cudaError_t launch_count_wrong(const Reuse& reuse, unsigned times, unsigned* wrong,
                               cudaStream_t stream);

/// Keeps the stream busy for that long, so that the work behind it starts without gaps.
cudaError_t launch_hold(unsigned microseconds, cudaStream_t stream);

}  // namespace bench::l2
