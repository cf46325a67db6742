// rank_exchange.hpp: an exchange between ranks as one kernel on symmetric memory. It needs neither
// the host nor a library while it runs, so it can stand in the body of a WHILE node and in a graph
// that launches itself. Every block is a channel of its own: it writes a piece of this rank's data
// into this rank's room, meets the blocks with its number on the other ranks, and reads their
// rooms. Waits have a deadline, and once one has expired, those of all ranks end.
#pragma once

#include <attacca/device/memory_model.hpp>
#include <attacca/device/rank_barrier.hpp>
#include <attacca/kernel.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/activations.hpp"

namespace attacca::kernels {

/// One rank's symmetric memory for exchanges. It begins as zeros.
struct RankRoom {
  static constexpr std::uint32_t kMostRanks = device::RankBarrier::kMostRanks;
  static constexpr std::uint32_t kChannels = 32;
  static constexpr std::uint32_t kPieceWords = 8192;  // what a channel moves between two meetings

  std::uint32_t came[kChannels][kMostRanks];  // by rank: the newest meeting that it came to
  std::uint32_t lost;                         // see RankLink::lost
  std::uint32_t none[31];
  /// A piece goes into one half while others may still read the piece before it in the other half.
  /// Two meetings later all have read it.
  std::uint32_t pieces[kChannels][2][kPieceWords];
};

/// The ranks as kernels of one of them see them. A plain value for kernel arguments.
struct RankLink {
  using Word = device::AtomicRef<std::uint32_t, device::Scope::system>;
  static constexpr std::uint32_t kStopped = ~0u;  // the host ends all waits of this rank

  RankRoom* rooms[RankRoom::kMostRanks];  // by rank
  std::uint32_t* turns;                   // [kChannels]: how often this rank has met the others
  std::uint64_t nanoseconds;              // the deadline
  std::int32_t rank;
  std::int32_t ranks;

  /// 0, the number of a rank that did not come plus one, or kStopped.
  ATTACCA_HD std::uint32_t lost() const { return Word(rooms[rank]->lost).load(device::relaxed); }
  /// Ends the waits of all ranks.
  ATTACCA_HD void lose(std::int32_t missing) const {
    for (std::int32_t each = 0; each < ranks; ++each)
      Word(rooms[each]->lost).store(static_cast<std::uint32_t>(missing) + 1, device::relaxed);
  }
  /// Waits until a word of this rank is `value`, or later, which rank `from` sets. What was written
  /// before is visible then. Returns what `lost` does.
  ATTACCA_HD std::uint32_t wait(std::uint32_t& word, std::uint32_t value, std::int32_t from) const {
    const std::uint64_t start = device::NativeMemory::now();
    device::NativeMemory::Backoff backoff;
    // acquire pairs with the release of rank `from`: once the value is seen, so is the data.
    while (static_cast<std::int32_t>(Word(word).load(device::acquire) - value) < 0) {
      if (const std::uint32_t who = lost()) return who;
      if (device::NativeMemory::now() - start > nanoseconds) {
        lose(from);
        return static_cast<std::uint32_t>(from) + 1;
      }
      backoff.pause();
    }
    return lost();
  }
  /// Returns when all ranks have come to the channel's meeting `turn`, with what `lost` returns.
  ATTACCA_HD std::uint32_t meet(std::uint32_t channel, std::uint32_t turn) const {
    for (std::int32_t other = 0; other < ranks; ++other)
      if (other != rank) Word(rooms[other]->came[channel][rank]).store(turn, device::release);
    for (std::int32_t other = 0; other < ranks; ++other)
      if (other != rank)
        if (const std::uint32_t who = wait(rooms[rank]->came[channel][other], turn, other))
          return who;
    return 0;
  }
  /// Tells the host which rank did not come, unless the host knows more. `wanted`: see
  /// WaitingThread. REQUIRES: the kernel waits for kRankNames.
  ATTACCA_HD void report(const WaitingThread& t, std::uint32_t who, std::uint32_t wanted) const {
    if (who != kStopped) t.give_up(who - 1, wanted, wanted - 1, nanoseconds);
  }
};

inline constexpr const char* kRankNames[] = {"rank 0", "rank 1", "rank 2", "rank 3",
                                             "rank 4", "rank 5", "rank 6", "rank 7"};
static_assert(std::size(kRankNames) == RankRoom::kMostRanks);

/// What the ranks get of each other's words:
///  sum     all get the sum of all ranks' f32, added up in pairs: (0 + 1) + (2 + 3)
///  gather  rank 0 gets the words of all ranks, at distances of capacity * each
///  share   all get those of rank 0
enum class RankPattern : std::uint32_t { sum, gather, share };

struct RankExchangeArgs {
  RankLink link;
  const std::uint32_t* from;  // [rows, each]
  std::uint32_t* to;
  RowCount rows;       // the same number on all ranks
  std::uint32_t each;  // words of a row
  RankPattern pattern;
};

const Kernel<RankExchangeArgs>& rank_exchange();
Grid grid_of(const RankExchangeArgs& args, bool is_cuda);

}  // namespace attacca::kernels
