// streamed_memory.cuh: how streamed_linear.cuh stores a number for the next kernel, and prefetches
// what that one reads.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace attacca::kernels::streamed {

/// Stores a number as bf16, and its rounding error where `rest` is wanted.
__device__ inline void put(std::uint16_t* to, std::uint16_t* rest, std::uint64_t at, float value) {
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
  to[at] = __bfloat16_as_ushort(rounded);
  if (rest) rest[at] = __bfloat16_as_ushort(__float2bfloat16_rn(value - __bfloat162float(rounded)));
}

/// Prefetches into L2.
__device__ inline void prefetch(const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)),
               "r"(bytes)
               : "memory");
}

}  // namespace attacca::kernels::streamed
