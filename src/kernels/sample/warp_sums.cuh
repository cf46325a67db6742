// warp_sums.cuh: sums, maxima and a search in prefix sums over a warp. All 32 lanes call.
#pragma once

#include <cstdint>

namespace attacca::kernels {

__device__ inline std::uint64_t sum_of_warp(std::uint64_t value) {
#pragma unroll
  for (unsigned step = 16; step != 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

__device__ inline std::uint64_t max_of_warp(std::uint64_t value) {
#pragma unroll
  for (unsigned step = 16; step != 0; step /= 2) {
    const std::uint64_t other = __shfl_xor_sync(~0u, value, step);
    value = other > value ? other : value;
  }
  return value;
}

/// Lays the lanes' values end to end and returns the lane that covers `point`; point becomes the
/// offset in that lane's value. REQUIRES: point < the sum of all.
__device__ inline unsigned lane_at(std::uint64_t mine, std::uint64_t& point) {
  const unsigned lane = threadIdx.x % 32;
  std::uint64_t up_to_here = mine;
#pragma unroll
  for (unsigned step = 1; step < 32; step *= 2) {
    const std::uint64_t other = __shfl_up_sync(~0u, up_to_here, step);
    if (lane >= step) up_to_here += other;
  }
  const unsigned reached = __ballot_sync(~0u, up_to_here > point);
  const auto owner = static_cast<unsigned>(__ffs(static_cast<int>(reached))) - 1;
  point -= __shfl_sync(~0u, up_to_here - mine, static_cast<int>(owner));
  return owner;
}

}  // namespace attacca::kernels
