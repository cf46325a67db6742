// sm90_tma.cuh: inline PTX for TMA copies of boxes of a matrix into shared memory. A box row of 64
// columns is 128 bytes there, with its 16-byte pieces swizzled. The layouts of the boxes are in the
// tensor maps that the .cpp files make.
#pragma once

#include <attacca/tensor_map.hpp>
#include <cstdint>

#include "kernels/linear/ring.cuh"

namespace attacca::kernels {

/// Makes a tensor map in global memory visible to TMA and prefetches it. The host wrote it before
/// this kernel.
__device__ inline void prefetch_map(const TensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
  asm volatile("prefetch.tensormap [%0];" ::"l"(__cvta_generic_to_global(map)) : "memory");
}
/// Multicasts a box of x, 64 columns and some rows, to the same address in both blocks of a pair.
/// The bytes complete on `full` in both.
__device__ inline void copy_to_pair(std::uint64_t* full, void* to, const TensorMap* map,
                                    std::uint32_t column, std::uint32_t row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "r"(column), "r"(row), "h"(static_cast<std::uint16_t>(3))
      : "memory");
}
/// Copies a tile of weights whose first octet of rows is `octet`.
__device__ inline void copy_weights(std::uint64_t* full, void* to, const TensorMap* map,
                                    std::uint32_t column, std::uint32_t octet,
                                    std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %5, %5, %4}], [%2], %6;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(full)), "r"(column), "r"(octet), "r"(0), "l"(policy)
      : "memory");
}

}  // namespace attacca::kernels
