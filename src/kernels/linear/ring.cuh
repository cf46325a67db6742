// ring.cuh: shared memory as a ring of stages that TMA fills ahead of use: barriers
// that say when a stage is full and when it is free again.
#pragma once

#include <cuda_awbarrier_primitives.h>

#include <cstdint>

#include "kernels/wait_bound.cuh"

namespace attacca::kernels {

// What L2 shall do with what was copied, as CUDA encodes it.
inline constexpr std::uint64_t kEvictFirst = 0x12f0000000000000ull;
inline constexpr std::uint64_t kEvictNormal = 0x1000000000000000ull;

__device__ inline unsigned shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}

/// `kFillers` warps fill stages, `kReaders` warps read them, all in the same order. To ask the copy
/// engine for something takes a warp some 40 ns, so one filler may be too slow.
///
/// Waits are bounded; see WaitBound. A warp whose wait returned false may not touch the stage, give
/// it back or advance, but may go on, and perhaps ask for the same stage again. So every barrier
/// keeps its count: no one arrives for a stage that was not there. The one thing that cannot be
/// guaranteed then is that no copy is under way when the block ends: one that has not come for so
/// long may still come, into memory that is another block's by then.
template <unsigned kStages, unsigned kFillers, unsigned kReaders,
          std::uint64_t kPatience = kPatienceNanoseconds>
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
    bound_.open();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  /// A filling warp, all lanes: waits until the stage is free. The first time round it is.
  [[nodiscard]] __device__ bool wait_empty(const Place& at) {
    if (is_past(empty_[at.stage], !at.parity)) [[likely]]
      return true;
    // Those that read may be waiting for the kernels before, which may take their time.
    cudaGridDependencySynchronize();
    return wait_longer(kWaitForEmpty, at.stage, empty_[at.stage], !at.parity);
  }
  /// The same, and then: `bytes` will come from this warp.
  [[nodiscard]] __device__ bool begin_fill(const Place& at, unsigned bytes) {
    if (!wait_empty(at)) return false;
    if (threadIdx.x % 32 == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                       shared_address(&full_[at.stage])),
                   "r"(bytes)
                   : "memory");
    __syncwarp();
    return true;
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
  [[nodiscard]] __device__ bool wait_full(const Place& at) {
    if (is_past(full_[at.stage], at.parity)) [[likely]]
      return true;
    return wait_longer(kWaitForFull, at.stage, full_[at.stage], at.parity);
  }
  /// The same: gives the stage back. Each lane arrives for itself: it costs no time, and racecheck
  /// sees that its reads came before. `seen` depends on all that the lane read. An arrival does not
  /// wait for loads that are under way: where another kernel holds them up, the engine can be
  /// faster and overwrite what they shall read. So the arrival depends on them too.
  __device__ void release(const Place& at, unsigned seen) {
    __syncwarp();
    const unsigned nothing = seen & threadIdx.y;  // blocks are flat, which no compiler knows
    (void)__mbarrier_arrive(empty_ + at.stage + nothing);
  }

  /// By every thread, at the end of the kernel: tells the host of a wait that was given up.
  __device__ void report(const WaitingThread& t) const {
    bound_.report(
        t,
        [&](unsigned what, unsigned stage) {
          return what == kWaitForFull ? full_[stage] : empty_[stage];
        },
        [](unsigned) { return kPatience; });
  }

 private:
  /// Gives the hardware a millisecond to say yes.
  __device__ static bool is_past(std::uint64_t& barrier, bool parity) {
    constexpr unsigned kNapNanoseconds = 1'000'000;
    return __mbarrier_try_wait_parity(&barrier, parity, kNapNanoseconds);
  }
  __device__ bool wait_longer(RingWait what, unsigned stage, std::uint64_t& barrier, bool parity) {
    return bound_.wait(what, stage, kPatience, [&] { return is_past(barrier, parity); });
  }

  std::uint64_t full_[kStages];
  std::uint64_t empty_[kStages];
  WaitBound bound_;
};

}  // namespace attacca::kernels
