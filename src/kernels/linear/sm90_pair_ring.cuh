// sm90_pair_ring.cuh: the ring of ring.cuh for a cluster of two blocks. Each block has a ring in
// its shared memory; TMA multicasts into both, so a stage is filled again only when both blocks
// have released it.
#pragma once

#include "kernels/linear/ring.cuh"

namespace attacca::kernels {

/// Barrier of all threads of both blocks.
__device__ inline void synchronize_pair() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

/// One producer thread or warp fills, `kConsumers` warps read. REQUIRES: both blocks go through the
/// same stages. Waits are bounded as in Ring. Where one block gives up, the other soon does too,
/// and both reach the cluster barrier at the end.
template <unsigned kStages, unsigned kConsumers, std::uint64_t kPatience = kPatienceNanoseconds>
class PairRing {
 public:
  using State = typename Ring<kStages, 1, kConsumers>::State;

  /// Called by one thread; synchronize_pair() must follow.
  __device__ void init() {
    for (unsigned stage = 0; stage < kStages; ++stage) {
      __mbarrier_init(&full_[stage], 1);
      __mbarrier_init(&empty_[stage], 2 * kConsumers);
    }
    bound_.init();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  /// The producer: waits until both blocks have released the stage. In the first round they have.
  [[nodiscard]] __device__ bool wait_empty(const State& at) {
    return wait(kWaitForEmpty, at.stage, empty_[at.stage], !at.phase);
  }
  /// One thread of the producer: announces the `bytes` that both blocks will copy to this block.
  /// REQUIRES: wait_empty.
  __device__ void expect(const State& at, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(&full_[at.stage])),
                 "r"(bytes)
                 : "memory");
  }
  /// The mbarrier that copies into the stage complete on.
  __device__ std::uint64_t* full(const State& at) { return &full_[at.stage]; }

  /// All lanes of a consumer warp: waits for the stage's bytes, or releases the stage to both
  /// producers. Loads into registers must complete first: `seen` depends on them, as in Ring.
  [[nodiscard]] __device__ bool wait_full(const State& at) {
    return wait(kWaitForFull, at.stage, full_[at.stage], at.phase);
  }
  __device__ void release(const State& at, unsigned seen = 0) {
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

  /// Another wait of the block; see WaitBound::wait. It ends when the ring's waits do.
  template <class IsDone>
  __device__ bool wait_otherwise(unsigned what, unsigned wanted, std::uint64_t patience,
                                 const IsDone& is_done) {
    if (bound_.wait(what, wanted, patience, is_done)) return true;
    bound_.end_in_peer();
    return false;
  }

  /// Called by every thread at the end of the kernel: reports a wait that was given up to the host.
  /// For a wait other than the ring's, `seen` is the value it found and `patience` how long it
  /// waited.
  __device__ void report(const WaitingThread& t, std::uint32_t seen = 0,
                         std::uint64_t patience = kPatience) const {
    bound_.report(
        t,
        [&](unsigned what, unsigned stage) -> std::uint64_t {
          return what == kWaitForFull ? full_[stage] : what == kWaitForEmpty ? empty_[stage] : seen;
        },
        [&](unsigned what) { return what < kRingWaits ? kPatience : patience; });
  }

 private:
  __device__ bool wait(RingWait what, unsigned stage, std::uint64_t& barrier, bool phase) {
    if (try_wait(barrier, phase)) [[likely]]
      return true;
    if (bound_.wait(what, stage, kPatience, [&] { return try_wait(barrier, phase); })) return true;
    bound_.end_in_peer();
    return false;
  }
  /// Waits for a while in hardware.
  __device__ static bool try_wait(std::uint64_t& barrier, bool phase) {
    unsigned is_done;
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(is_done)
        : "r"(shared_address(&barrier)), "r"(static_cast<unsigned>(phase))
        : "memory");
    return is_done != 0;
  }

  std::uint64_t full_[kStages];
  std::uint64_t empty_[kStages];
  WaitBound bound_;
};

}  // namespace attacca::kernels
