// wait_bound.cuh: the bound of a block's waits. A wait that takes too long ends unanswered, and so
// does every later one of the block. The kernel runs to its end with whatever lies in memory, so it
// leaves no barrier waiting and the context survives. Its results are garbage, and the host is told
// so.
//
// Waits are in the hottest loops there are. A wait first asks once and comes here only if the
// answer is no, so this code costs the other waits nothing. It is inlined nevertheless, since a
// call would make ptxas ignore setmaxnreg and serialize wgmma; and the host is told at the end of
// the kernel, where there are registers for that.
#pragma once

#include <attacca/device/memory_model.hpp>
#include <attacca/thread.hpp>
#include <cstdint>

#include "kernels/waits.hpp"

namespace attacca::kernels {

/// Lies in shared memory. REQUIRES: blocks of one dimension.
class WaitBound {
 public:
  /// Called by one thread before any other use; a __syncthreads() must follow.
  __device__ void init() { word_ = 0; }

  /// Calls `is_done` until it returns true, or `patience` nanoseconds are over, or another wait of
  /// the block has given up; in these cases it returns false. `what` is an index of the kernel's
  /// `waits_for`, below 16; `wanted` is below 65536. Lanes that wait together find the same word
  /// and the same time, and so give up together, as what follows needs them to.
  template <class IsDone>
  __device__ bool wait(unsigned what, unsigned wanted, std::uint64_t patience,
                       const IsDone& is_done) {
    const std::uint32_t start = now();
    for (;;) {
      if (is_done()) return true;
      if (is_over()) return false;
      if (now() - start <= static_cast<std::uint32_t>(patience >> kUnitBits)) continue;
      *const_cast<volatile unsigned*>(&word_) = kIsRecord | what << 27 | wanted << 11 | threadIdx.x;
      return false;
    }
  }
  /// Ends all waits of the other block of a pair. REQUIRES: that block has not exited.
  __device__ void end_in_peer() {
    asm volatile(
        "{ .reg .b32 rank, there;\n"
        "mov.u32 rank, %%cluster_ctarank;\n"
        "xor.b32 rank, rank, 1;\n"
        "mapa.shared::cluster.u32 there, %0, rank;\n"
        "red.relaxed.cluster.shared::cluster.max.u32 [there], 1; }" ::"r"(
            static_cast<unsigned>(__cvta_generic_to_shared(&word_)))
        : "memory");
  }

  /// Called by every thread at the end of the kernel: a thread that gave up reports to the host.
  /// `seen(what, wanted)` is the value found instead, and `patience(what)` how long it waited.
  template <class Seen, class Patience>
  __device__ void report(const WaitingThread& t, const Seen& seen, const Patience& patience) const {
    const unsigned word = word_;
    if (word < kIsRecord || word % 2048 != threadIdx.x) return;
    const unsigned what = word >> 27 & 15;
    const unsigned wanted = word >> 11 & 65535;
    t.give_up(what, wanted, seen(what, wanted), patience(what));
  }

 private:
  // 2^20 ns, a millisecond roughly: 32 bits of such units are enough, which spares a register.
  static constexpr unsigned kUnitBits = 20;
  static constexpr unsigned kIsRecord = 1u << 31;
  __device__ static std::uint32_t now() {
    return static_cast<std::uint32_t>(device::detail::now_nanoseconds() >> kUnitBits);
  }
  __device__ bool is_over() const { return *const_cast<const volatile unsigned*>(&word_) != 0; }

  // 0: all is well. Otherwise all waits of the block end at once because one was overdue. If it was
  // in this block, the word is the record of the thread that gave up; if it was in the other block
  // of a pair, the word is 1. It is one word, written without looking: more would take registers
  // from the hottest loops.
  unsigned word_;
};

}  // namespace attacca::kernels
