// cluster.cuh: the barrier and the distributed shared memory (DSMEM) of a thread block cluster, for
// templates whose cluster may also be a single block.
#pragma once

#include <cstdint>

namespace attacca::kernels {

template <unsigned kBlocks>
struct Cluster {
  /// Barrier of all threads of the cluster. Writes before it are visible after it, also through
  /// DSMEM.
  __device__ static void sync() {
    if constexpr (kBlocks == 1) {
      __syncthreads();
    } else {
      asm volatile(
          "barrier.cluster.arrive.release;\n"
          "barrier.cluster.wait.acquire;" ::
              : "memory");
    }
  }
  /// The address of `own` in the shared memory of the block with this rank.
  template <class T>
  __device__ static T* map_shared_rank(T* own, unsigned rank) {
    if constexpr (kBlocks == 1) return own;
    std::uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(rank));
    return reinterpret_cast<T*>(there);
  }
};

}  // namespace attacca::kernels
