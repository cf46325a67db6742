// rank_exchange.cpp: the kernel of rank_exchange.hpp, for blocks of a GPU or one thread of the
// host.
#include "kernels/rank_exchange.hpp"

#include <cstring>

#include "core/pairs.hpp"

namespace attacca::kernels {
namespace {

constexpr std::uint32_t kThreads = 512;
constexpr std::uint32_t kWordsPerThread = 4;  // fewer are not worth another channel

struct alignas(16) Four {
  std::uint32_t words[4];
};

/// Another rank's words, which its GPU wrote while this kernel may have had older ones in L1.
template <class T>
ATTACCA_HD T read(const T* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == sizeof(uint4)) {
    const uint4 four = __ldcg(reinterpret_cast<const uint4*>(from));
    return {{four.x, four.y, four.z, four.w}};
  } else {
    return __ldcg(from);
  }
#else
  return *from;
#endif
}

ATTACCA_HD float as_float(std::uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
ATTACCA_HD std::uint32_t sum(std::uint32_t a, std::uint32_t b) {
  const float value = as_float(a) + as_float(b);
  std::uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}
ATTACCA_HD Four sum(const Four& a, const Four& b) {
  return {{sum(a.words[0], b.words[0]), sum(a.words[1], b.words[1]), sum(a.words[2], b.words[2]),
           sum(a.words[3], b.words[3])}};
}

struct RankExchange {
  static constexpr const char* name = "rank_exchange";
  static constexpr auto& waits_for = kRankNames;
  using Args = RankExchangeArgs;

  static Cost cost(const Args& a) {
    const double words = 1.0 * a.rows.capacity * a.each;
    return {.flops = a.pattern == RankPattern::sum ? words * (a.link.ranks - 1) : 0,
            .bytes = 4 * words * (3 + a.link.ranks)};
  }

  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
    const std::uint32_t channel = t.block.x;
    std::uint32_t turn = a.link.turns[channel];
    // Behind a broken meeting nothing is written: a rank that was late may still read.
    if (!goes_on(t, a, t.thread.x == 0 ? a.link.lost() : 0, turn + 1)) return;
    const std::uint32_t rows = *a.rows.count < a.rows.capacity ? *a.rows.count : a.rows.capacity;
    const std::uint64_t all = std::uint64_t{rows} * a.each;
    const std::uint64_t part = ((all + t.blocks.x - 1) / t.blocks.x + 3) / 4 * 4;
    const std::uint64_t last = (channel + 1) * part < all ? (channel + 1) * part : all;
    const auto addresses = reinterpret_cast<std::uintptr_t>(a.from) |  //
                           reinterpret_cast<std::uintptr_t>(a.to);
    const bool by_fours = addresses % sizeof(Four) == 0 && a.each % 4 == 0;
    for (std::uint64_t first = channel * part; first < last; first += RankRoom::kPieceWords) {
      const std::uint64_t left = last - first;
      const auto words =
          static_cast<std::uint32_t>(left < RankRoom::kPieceWords ? left : RankRoom::kPieceWords);
      ++turn;
      if (by_fours)
        write<Four>(t, a, turn, first, words);
      else
        write<std::uint32_t>(t, a, turn, first, words);
      if (!meet(t, a, turn)) return;
      if (by_fours)
        take<Four>(t, a, turn, first, words);
      else
        take<std::uint32_t>(t, a, turn, first, words);
    }
  }

 private:
  template <class T>
  ATTACCA_HD static T* piece_of(const Args& a, std::int32_t rank, std::uint32_t channel,
                                std::uint32_t turn) {
    return reinterpret_cast<T*>(a.link.rooms[rank]->pieces[channel][turn % 2]);
  }

  template <class T>
  ATTACCA_HD static void write(const Thread& t, const Args& a, std::uint32_t turn,
                               std::uint64_t first, std::uint32_t words) {
    if (a.pattern == RankPattern::share && a.link.rank != 0) return;
    constexpr std::uint32_t kEach = sizeof(T) / sizeof(std::uint32_t);
    T* const to = piece_of<T>(a, a.link.rank, t.block.x, turn);
    const T* const from = reinterpret_cast<const T*>(a.from + first);
    for (std::uint32_t at = t.thread.x; at < words / kEach; at += t.threads.x) to[at] = from[at];
  }

  /// One thread meets for its block.
  ATTACCA_HD static bool meet(const WaitingThread& t, const Args& a, std::uint32_t turn) {
#if defined(__CUDA_ARCH__)
    __syncthreads();  // all have written, and before that read what the last meeting brought
#endif
    std::uint32_t who = 0;
    if (t.thread.x == 0) {
      a.link.turns[t.block.x] = turn;
      who = a.link.meet(t.block.x, turn);
    }
    return goes_on(t, a, who, turn);
  }

  /// `who`: what the block's first thread knows of lost ranks. Also a barrier.
  ATTACCA_HD static bool goes_on(const WaitingThread& t, const Args& a, std::uint32_t who,
                                 std::uint32_t turn) {
    if (who != 0) a.link.report(t, who, turn);
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(who != 0) == 0;
#else
    return who == 0;
#endif
  }

  template <class T>
  ATTACCA_HD static void take(const Thread& t, const Args& a, std::uint32_t turn,
                              std::uint64_t first, std::uint32_t words) {
    constexpr std::uint32_t kEach = sizeof(T) / sizeof(std::uint32_t);
    if (a.pattern == RankPattern::share && a.link.rank == 0) return;
    if (a.pattern == RankPattern::gather && a.link.rank != 0) return;
    const std::uint32_t channel = t.block.x;
    if (a.pattern == RankPattern::gather) {
      for (std::int32_t rank = 0; rank < a.link.ranks; ++rank) {
        const std::uint64_t part = static_cast<std::uint64_t>(rank) * a.rows.capacity * a.each;
        T* const to = reinterpret_cast<T*>(a.to + part + first);
        const T* const from = piece_of<T>(a, rank, channel, turn);
        for (std::uint32_t at = t.thread.x; at < words / kEach; at += t.threads.x)
          to[at] = read(from + at);
      }
      return;
    }
    constexpr auto kMost = static_cast<std::int32_t>(RankRoom::kMostRanks);
    const std::int32_t last = a.pattern == RankPattern::sum ? a.link.ranks : 1;
    T* const to = reinterpret_cast<T*>(a.to + first);
    for (std::uint32_t at = t.thread.x; at < words / kEach; at += t.threads.x) {
      to[at] = sum_in_pairs<kMost, T>(
          last, [&](int rank) { return read(piece_of<T>(a, rank, channel, turn) + at); },
          [](const T& x, const T& y) { return sum(x, y); });
    }
  }
};

}  // namespace

const Kernel<RankExchangeArgs>& rank_exchange() {
  static const Kernel<RankExchangeArgs> kernel = make_kernel<RankExchange>();
  return kernel;
}

Grid grid_of(const RankExchangeArgs& args, bool is_cuda) {
  if (!is_cuda) return Grid{};
  const std::uint64_t words = std::uint64_t{args.rows.capacity} * args.each;
  const std::uint64_t channels = words / (kThreads * kWordsPerThread);
  return Grid{Dim3{static_cast<std::uint32_t>(channels < 1                     ? 1
                                              : channels > RankRoom::kChannels ? RankRoom::kChannels
                                                                               : channels)},
              Dim3{kThreads}};
}

}  // namespace attacca::kernels
