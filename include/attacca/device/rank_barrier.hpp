// rank_barrier.hpp: a barrier between kernels of several ranks that run at the same time, so that
// they can go in step without ending. `rank_barrier` of ranks.hpp makes one, and
// Group::launch_together starts such kernels.
#pragma once

#include <attacca/device/memory_model.hpp>
#include <cstdint>

namespace attacca::device {

/// A plain value for kernel arguments. One thread of each rank calls `meet` with 1, 2, 3, …, and
/// goes on counting at the next launch.
struct RankBarrier {
  static constexpr int kMostRanks = 8;
  using Word = Atomic<std::uint32_t, Scope::system>;

  Word* words[kMostRanks];  // by rank: its array, with a word for each rank that came to it
  int rank;
  int ranks;

  /// Returns `ranks` once all have come to `turn`; what they wrote before is visible then. If one
  /// does not come in time, returns its number.
  ATTACCA_HD int meet(std::uint32_t turn, std::uint64_t nanoseconds) const {
    for (int other = 0; other < ranks; ++other)
      // release pairs with the acquire below, on the other rank.
      if (other != rank) words[other][rank].store(turn, release);
    const std::uint64_t start = NativeMemory::now();
    for (int other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      NativeMemory::Backoff backoff;
      while (static_cast<std::int32_t>(words[rank][other].load(acquire) - turn) < 0) {
        if (NativeMemory::now() - start > nanoseconds) return other;
        backoff.pause();
      }
    }
    return ranks;
  }
};

}  // namespace attacca::device
