// cluster.cuh: the blocks of a thread block cluster: their barrier, and each other's shared memory.
#pragma once

#include <cstdint>

namespace attacca::kernels {

/// A cluster of one is a block alone.
template <unsigned kBlocks>
struct Cluster {
  /// All threads of all blocks. What a thread wrote before it is seen after it.
  __device__ static void meet() {
    if constexpr (kBlocks == 1) {
      __syncthreads();
    } else {
      asm volatile(
          "barrier.cluster.arrive.release;\n"
          "barrier.cluster.wait.acquire;" ::
              : "memory");
    }
  }
  /// The same place in the shared memory of another block.
  template <class T>
  __device__ static T* of_block(T* own, unsigned rank) {
    if constexpr (kBlocks == 1) return own;
    std::uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(rank));
    return reinterpret_cast<T*>(there);
  }
};

}  // namespace attacca::kernels
