// bandwidth.cpp: threads move blocks of memory at the same time, a few passes; the best one counts.
#include "instruments/bandwidth.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace attacca::instruments {

namespace {

constexpr std::size_t kWords = std::size_t{32} << 20;  // 256 MiB, of all threads together
// At most so many passes, and fewer if they take long.
constexpr std::size_t kPasses = 10;
constexpr std::size_t kLeastPasses = 2;
constexpr std::chrono::milliseconds kPatience{300};
constexpr std::size_t kUsualCacheBytes = std::size_t{512} << 10;

using Pair [[gnu::vector_size(16)]] = std::uint64_t;
constexpr std::size_t kStreams = 4;  // one core reads several at once faster than one by a third
constexpr std::size_t kPairs = 4;    // of a stream, a cache line
constexpr std::size_t kLine = 2 * kPairs;

/// The sum of the words. REQUIRES: a multiple of kStreams lines.
std::uint64_t sum(const std::uint64_t* from, std::size_t words) {
  const std::size_t stream = words / kStreams;
  Pair sums[kStreams * kPairs] = {};  // side by side, so that loads do not wait for additions
  for (std::size_t at = 0; at < stream; at += kLine) {
#pragma GCC unroll 16
    for (std::size_t lane = 0; lane < kStreams * kPairs; ++lane) {
      Pair pair;
      std::memcpy(&pair, from + lane / kPairs * stream + at + 2 * (lane % kPairs), sizeof pair);
      sums[lane] += pair;
    }
  }
  Pair total{};
  for (const Pair& part : sums) total += part;
  return total[0] + total[1];
}

/// Bytes per second of the best pass. `move(words, count)` moves a thread's own words once and
/// returns something that depends on them. `moved`: bytes that a pass of all threads moves.
template <class Move>
double best_rate(unsigned threads, std::size_t words_each, double moved, const Move& move) {
  using Clock = std::chrono::steady_clock;
  std::atomic<std::uint64_t> seen{0};  // keeps the reads
  std::vector<Clock::time_point> marks;
  marks.reserve(kPasses + 1);
  bool goes_on = true;
  std::barrier together(threads, [&]() noexcept {
    marks.push_back(Clock::now());
    goes_on = marks.size() <= kPasses &&
              (marks.size() <= kLeastPasses || marks.back() - marks.front() < kPatience);
  });
  const std::unique_ptr<std::uint64_t[]> block(new std::uint64_t[words_each * threads]);
  {
    std::vector<std::jthread> movers;
    for (unsigned mover = 0; mover < threads; ++mover) {
      movers.emplace_back([&, mover] {
        std::uint64_t* const part = block.get() + mover * words_each;
        std::fill(part, part + words_each, mover);  // by its reader, so that its pages lie near
        together.arrive_and_wait();
        while (goes_on) {
          seen.fetch_add(move(part, words_each), std::memory_order_relaxed);
          together.arrive_and_wait();
        }
      });
    }
  }
  double best = 0;
  for (std::size_t pass = 1; pass < marks.size(); ++pass) {
    const std::chrono::duration<double> took = marks[pass] - marks[pass - 1];
    best = std::max(best, moved / took.count());
  }
  return best;
}

unsigned all_if_none(unsigned threads) {
  return threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
}
/// So many words that `sum` takes all of them.
std::size_t whole_sums(std::size_t words) {
  return words / (kStreams * kLine) * (kStreams * kLine);
}
double bytes_of(std::size_t words, unsigned threads) {
  return static_cast<double>(words * threads * sizeof(std::uint64_t));
}

}  // namespace

std::uint64_t sum_words(const void* from, std::size_t bytes) {
  const auto* words = static_cast<const std::uint64_t*>(from);
  return sum(words, whole_sums(bytes / sizeof *words));
}

double read_bandwidth(unsigned threads) {
  threads = all_if_none(threads);
  const std::size_t share = whole_sums(kWords / threads);
  return best_rate(threads, share, bytes_of(share, threads),
                   [](const std::uint64_t* words, std::size_t count) { return sum(words, count); });
}

double copy_bandwidth(unsigned threads) {
  threads = all_if_none(threads);
  const std::size_t share = whole_sums(kWords / threads);
  return best_rate(threads, share, bytes_of(share, threads),
                   [](std::uint64_t* words, std::size_t count) {
                     std::memcpy(words + count / 2, words, count / 2 * sizeof *words);
                     return words[count / 2];
                   });
}

double cache_bandwidth(unsigned threads) {
  threads = all_if_none(threads);
  const std::size_t share = whole_sums(core_cache_bytes() / 2 / sizeof(std::uint64_t));
  const std::size_t rounds = std::max<std::size_t>(1, kWords / threads / share);
  return best_rate(threads, share, bytes_of(share * rounds, threads),
                   [rounds](const std::uint64_t* words, std::size_t count) {
                     std::uint64_t total = 0;
                     for (std::size_t round = 0; round < rounds; ++round) {
                       total += sum(words, count);
                       // Another round may not reuse what this one read.
                       asm volatile("" ::"r"(words) : "memory");
                     }
                     return total;
                   });
}

std::size_t core_cache_bytes() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  if (const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0)
    return static_cast<std::size_t>(bytes);
#endif
  return kUsualCacheBytes;
}

}  // namespace attacca::instruments
