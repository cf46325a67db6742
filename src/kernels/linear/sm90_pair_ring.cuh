// sm90_pair_ring.cuh: two blocks of a cluster, each with a ring of stages in its shared memory,
// filled by TMA on behalf of both: a stage is filled again when both have read it.
#pragma once

#include "kernels/linear/ring.cuh"

namespace attacca::kernels {

/// All threads of both blocks.
__device__ inline void synchronize_pair() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

/// One thread or warp fills, `kReaders` warps read. REQUIRES: both blocks go through the same
/// stages. Waits are bounded as those of Ring are; where one block gives up, the other soon does
/// too, and both come to the barrier of the pair at the end.
template <unsigned kStages, unsigned kReaders, std::uint64_t kPatience = kPatienceNanoseconds>
class PairRing {
 public:
  using Place = typename Ring<kStages, 1, kReaders>::Place;

  /// By one thread; a barrier of the pair must follow.
  __device__ void open() {
    for (unsigned stage = 0; stage < kStages; ++stage) {
      __mbarrier_init(&full_[stage], 1);
      __mbarrier_init(&empty_[stage], 2 * kReaders);
    }
    bound_.open();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  /// The filling thread or warp: waits until both blocks are done with the stage. The first time
  /// round they are.
  [[nodiscard]] __device__ bool wait_empty(const Place& at) {
    return wait(kWaitForEmpty, at.stage, empty_[at.stage], !at.parity);
  }
  /// One thread of those: `bytes` will come to this block, from both. REQUIRES: wait_empty.
  __device__ void expect(const Place& at, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(&full_[at.stage])),
                 "r"(bytes)
                 : "memory");
  }
  /// The barrier that copies into the stage complete.
  __device__ std::uint64_t* full(const Place& at) { return &full_[at.stage]; }

  /// A reading warp, all lanes: waits for the stage's bytes, or gives the stage back to both. What
  /// was loaded into registers must have come before that: `seen` depends on it, as with Ring.
  [[nodiscard]] __device__ bool wait_full(const Place& at) {
    return wait(kWaitForFull, at.stage, full_[at.stage], at.parity);
  }
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

  /// Another wait of the block, see WaitBound::wait; it ends with those of the ring.
  template <class IsDone>
  __device__ bool wait_otherwise(unsigned what, unsigned wanted, std::uint64_t patience,
                                 const IsDone& is_done) {
    if (bound_.wait(what, wanted, patience, is_done)) return true;
    bound_.end_in_peer();
    return false;
  }

  /// By every thread, at the end of the kernel: tells the host of a wait that was given up. For
  /// a wait other than the ring's, `seen` is the value it found and `patience` how long it waited.
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
  __device__ bool wait(RingWait what, unsigned stage, std::uint64_t& barrier, bool parity) {
    if (is_past(barrier, parity)) [[likely]]
      return true;
    if (bound_.wait(what, stage, kPatience, [&] { return is_past(barrier, parity); })) return true;
    bound_.end_in_peer();
    return false;
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
  WaitBound bound_;
};

}  // namespace attacca::kernels
