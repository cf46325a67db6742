// ring.cuh: shared memory as a ring of stages that the copy engine fills ahead of use: barriers
// that say when a stage is full and when it is free again.
#pragma once

#include <cuda_awbarrier_primitives.h>

#include <cstdint>

namespace attacca::kernels {

// What L2 shall do with what was copied, as CUDA encodes it.
inline constexpr std::uint64_t kEvictFirst = 0x12f0000000000000ull;
inline constexpr std::uint64_t kEvictNormal = 0x1000000000000000ull;

__device__ inline unsigned shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}

/// `kFillers` warps fill stages, `kReaders` warps read them, all in the same order. To ask the copy
/// engine for something takes a warp some 40 ns, so one filler may be too slow.
template <unsigned kStages, unsigned kFillers, unsigned kReaders>
class Ring {
 public:
  /// Where someone is in the ring.
  struct Place {
    unsigned stage = 0;
    bool parity = false;
    __device__ void advance() {
      if (++stage == kStages) {
        stage = 0;
        parity = !parity;
      }
    }
  };

  /// By one thread, before the others come; a barrier of the block must follow.
  __device__ void open() {
    for (unsigned stage = 0; stage < kStages; ++stage) {
      __mbarrier_init(&full_[stage], kFillers);
      __mbarrier_init(&empty_[stage], kReaders * 32);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  /// A filling warp, all lanes: waits until the stage is free. The first time round it is.
  __device__ void wait_empty(const Place& at) { wait(empty_[at.stage], !at.parity); }
  /// The same, and then: `bytes` will come from this warp.
  __device__ void begin_fill(const Place& at, unsigned bytes) {
    wait_empty(at);
    if (threadIdx.x % 32 == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                       shared_address(&full_[at.stage])),
                   "r"(bytes)
                   : "memory");
    __syncwarp();
  }
  /// Has the engine copy a piece of the stage. Weights are read once, and may leave L2 first.
  __device__ void copy(const Place& at, void* to, const void* from, unsigned bytes) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(&full_[at.stage])),
        "l"(kEvictFirst)
        : "memory");
  }

  /// A reading warp, all lanes: waits for the stage's bytes.
  __device__ void wait_full(const Place& at) { wait(full_[at.stage], at.parity); }
  /// The same: gives the stage back. Each lane arrives for itself: it costs no time, and racecheck
  /// sees that its reads came before. `seen` depends on all that the lane read. An arrival does not
  /// wait for loads that are under way: where another kernel holds them up, the engine can be
  /// faster and overwrite what they shall read. So the arrival depends on them too.
  __device__ void release(const Place& at, unsigned seen) {
    __syncwarp();
    const unsigned nothing = seen & threadIdx.y;  // blocks are flat, which no compiler knows
    (void)__mbarrier_arrive(empty_ + at.stage + nothing);
  }

 private:
  /// An engine that cannot read its source ends the kernel with an error, so the bound is only for
  /// mistakes of ours.
  __device__ static void wait(std::uint64_t& barrier, bool parity) {
    constexpr unsigned kNapNanoseconds = 1'000'000;
    constexpr unsigned kMostNaps = 20'000;
    for (unsigned naps = 0; !__mbarrier_try_wait_parity(&barrier, parity, kNapNanoseconds); ++naps)
      if (naps == kMostNaps) __trap();
  }

  std::uint64_t full_[kStages];
  std::uint64_t empty_[kStages];
};

}  // namespace attacca::kernels
