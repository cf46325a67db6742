// pair_ring.cuh: two blocks of a cluster, each with a ring of stages in its shared memory, filled
// by the copy engine on behalf of both: a stage is filled again when both have read it.
#pragma once

#include "kernels/cuda/ring.cuh"

namespace attacca::kernels {

/// All threads of both blocks.
__device__ inline void synchronize_pair() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

/// One thread fills, `kReaders` warps read. REQUIRES: both blocks go through the same stages.
template <unsigned kStages, unsigned kReaders>
class PairRing {
 public:
  using Place = typename Ring<kStages, 1, kReaders>::Place;

  /// By one thread; a barrier of the pair must follow.
  __device__ void open() {
    for (unsigned stage = 0; stage < kStages; ++stage) {
      __mbarrier_init(&full_[stage], 1);
      __mbarrier_init(&empty_[stage], 2 * kReaders);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  /// The filling thread: waits until both blocks are done with the stage; `bytes` will come to this
  /// one, from both.
  __device__ void begin_fill(const Place& at, unsigned bytes) {
    wait(empty_[at.stage], !at.parity);  // the first time round it is
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(&full_[at.stage])),
                 "r"(bytes)
                 : "memory");
  }
  /// The barrier that copies into the stage complete.
  __device__ std::uint64_t* full(const Place& at) { return &full_[at.stage]; }

  /// A reading warp, all lanes: waits for the stage's bytes, or gives the stage back to both. What
  /// was loaded into registers must have come before that: `seen` depends on it, as with Ring.
  __device__ void wait_full(const Place& at) { wait(full_[at.stage], at.parity); }
  __device__ void release(const Place& at, unsigned seen = 0) {
    __syncwarp();
    const unsigned rank = threadIdx.x % 32;
    const unsigned nothing = seen & threadIdx.y;
    if (rank < 2)
      asm volatile(
          "{ .reg .b32 there;\n"
          "mapa.shared::cluster.u32 there, %0, %1;\n"
          "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(
              shared_address(empty_ + at.stage + nothing)),
          "r"(rank)
          : "memory");
  }

 private:
  /// As with Ring, the bound is only for mistakes of ours: seconds at least.
  __device__ static void wait(std::uint64_t& barrier, bool parity) {
    constexpr unsigned kMostTries = 1u << 28;
    for (unsigned tries = 0; !is_past(barrier, parity); ++tries)
      if (tries == kMostTries) __trap();
  }
  /// Gives the hardware a while to say yes.
  __device__ static bool is_past(std::uint64_t& barrier, bool parity) {
    unsigned is_done;
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(is_done)
        : "r"(shared_address(&barrier)), "r"(static_cast<unsigned>(parity))
        : "memory");
    return is_done != 0;
  }

  std::uint64_t full_[kStages];
  std::uint64_t empty_[kStages];
};

}  // namespace attacca::kernels
