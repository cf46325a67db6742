// ring.cuh: a ring of stages in shared memory that TMA fills ahead of use: one mbarrier for each
// stage says when it is full, another when it is empty again. One block only; sm90_pair_ring.cuh
// has the ring of a cluster.
#pragma once

#include <cuda_awbarrier_primitives.h>

#include <cstdint>

#include "kernels/wait_bound.cuh"

namespace attacca::kernels {

// L2 cache hints, as CUDA encodes them.
inline constexpr std::uint64_t kEvictFirst = 0x12f0000000000000ull;
inline constexpr std::uint64_t kEvictNormal = 0x1000000000000000ull;

__device__ inline unsigned shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}

/// `kProducers` warps fill stages and `kConsumers` warps read them, all in the same order. A TMA
/// request takes a warp some 40 ns, so one producer warp may be too slow.
///
/// Waits are bounded; see WaitBound. A warp whose wait returned false may not touch the stage,
/// release it or advance, but it may go on and ask for the same stage again. So every mbarrier
/// keeps its count: no warp arrives for a stage that it did not get. In that case nothing
/// guarantees that all copies have completed when the block exits: an overdue one may still arrive,
/// in memory that by then belongs to another block.
template <unsigned kStages, unsigned kProducers, unsigned kConsumers,
          std::uint64_t kPatience = kPatienceNanoseconds>
class Ring {
 public:
  /// A warp's position in the ring, as CUTLASS's PipelineState.
  struct State {
    unsigned stage = 0;
    bool phase = false;
    __device__ void advance() {
      if (++stage == kStages) {
        stage = 0;
        phase = !phase;
      }
    }
  };

  /// Called by one thread before any other use; a __syncthreads() must follow.
  __device__ void init() {
    for (unsigned stage = 0; stage < kStages; ++stage) {
      __mbarrier_init(&full_[stage], kProducers);
      __mbarrier_init(&empty_[stage], kConsumers * 32);
    }
    bound_.init();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  /// All lanes of a producer warp: waits until the stage is empty. In the first round it is.
  [[nodiscard]] __device__ bool wait_empty(const State& at) {
    if (try_wait(empty_[at.stage], !at.phase)) [[likely]]
      return true;
    // The consumers may be waiting for the kernels before this one, which may take their time.
    cudaGridDependencySynchronize();
    return wait_slowly(kWaitForEmpty, at.stage, empty_[at.stage], !at.phase);
  }
  /// The same, then announces `bytes` from this warp.
  [[nodiscard]] __device__ bool begin_fill(const State& at, unsigned bytes) {
    if (!wait_empty(at)) return false;
    if (threadIdx.x % 32 == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                       shared_address(&full_[at.stage])),
                   "r"(bytes)
                   : "memory");
    __syncwarp();
    return true;
  }
  /// Has TMA copy a piece of the stage. Weights are read once, so they may leave L2 first.
  __device__ void copy(const State& at, void* to, const void* from, unsigned bytes) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(&full_[at.stage])),
        "l"(kEvictFirst)
        : "memory");
  }
  /// For a stage that the warp fills itself: all lanes of a producer warp announce that their bytes
  /// are there. REQUIRES: wait_empty; wgmma reads them only behind a proxy fence of each lane.
  __device__ void finish_fill(const State& at) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) (void)__mbarrier_arrive(&full_[at.stage]);
  }

  /// All lanes of a consumer warp: waits for the stage's bytes.
  [[nodiscard]] __device__ bool wait_full(const State& at) {
    if (try_wait(full_[at.stage], at.phase)) [[likely]]
      return true;
    return wait_slowly(kWaitForFull, at.stage, full_[at.stage], at.phase);
  }
  /// All lanes of a consumer warp: releases the stage. Each lane arrives for itself: it costs no
  /// time, and racecheck sees that its reads came before. `seen` must depend on all that the lane
  /// read. An arrival does not wait for loads in flight: if another kernel delays them, TMA may
  /// overwrite the stage before they read it. So the arrival's address depends on them
  /// (docs/trials.md, "A stage that was released too soon").
  __device__ void release(const State& at, unsigned seen) {
    __syncwarp();
    const unsigned nothing =
        seen & threadIdx.y;  // 0: blocks are one-dimensional, but the compiler cannot know
    (void)__mbarrier_arrive(empty_ + at.stage + nothing);
  }

  /// Called by every thread at the end of the kernel: reports a wait that was given up to the host.
  __device__ void report(const WaitingThread& t) const {
    bound_.report(
        t,
        [&](unsigned what, unsigned stage) {
          return what == kWaitForFull ? full_[stage] : empty_[stage];
        },
        [](unsigned) { return kPatience; });
  }

 private:
  /// Waits for up to a millisecond in hardware.
  __device__ static bool try_wait(std::uint64_t& barrier, bool phase) {
    constexpr unsigned kNapNanoseconds = 1'000'000;
    return __mbarrier_try_wait_parity(&barrier, phase, kNapNanoseconds);
  }
  __device__ bool wait_slowly(RingWait what, unsigned stage, std::uint64_t& barrier, bool phase) {
    return bound_.wait(what, stage, kPatience, [&] { return try_wait(barrier, phase); });
  }

  std::uint64_t full_[kStages];
  std::uint64_t empty_[kStages];
  WaitBound bound_;
};

}  // namespace attacca::kernels
