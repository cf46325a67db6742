// bandwidth.cpp: threads read one large block at the same time, a few passes; the best one counts.
#include "instruments/bandwidth.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace attacca::instruments {

namespace {

constexpr std::size_t kWords = std::size_t{32} << 20;  // 256 MiB
constexpr int kPasses = 6;

/// Eight sums side by side, so that loads do not wait for additions.
std::uint64_t sum(const std::uint64_t* from, const std::uint64_t* to) {
  std::uint64_t sums[8] = {};
  for (; from + 8 <= to; from += 8)
    for (int lane = 0; lane < 8; ++lane) sums[lane] += from[lane];
  std::uint64_t total = 0;
  for (const std::uint64_t part : sums) total += part;
  return total;
}

}  // namespace

double read_bandwidth(unsigned threads) {
  using Clock = std::chrono::steady_clock;
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t share = kWords / threads / 8 * 8;
  const std::unique_ptr<std::uint64_t[]> block(new std::uint64_t[kWords]);
  std::atomic<std::uint64_t> seen{0};  // keeps the reads
  std::vector<Clock::time_point> marks;
  marks.reserve(kPasses + 1);
  std::barrier together(threads, [&]() noexcept { marks.push_back(Clock::now()); });
  {
    std::vector<std::jthread> readers;
    for (unsigned reader = 0; reader < threads; ++reader) {
      readers.emplace_back([&, reader] {
        std::uint64_t* const part = block.get() + reader * share;
        std::fill(part, part + share, reader);  // by its reader, so that its pages lie near
        together.arrive_and_wait();
        for (int pass = 0; pass < kPasses; ++pass) {
          seen.fetch_add(sum(part, part + share), std::memory_order_relaxed);
          together.arrive_and_wait();
        }
      });
    }
  }
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const std::chrono::duration<double> took = marks[pass + 1] - marks[pass];
    best =
        std::max(best, static_cast<double>(share * threads * sizeof(std::uint64_t)) / took.count());
  }
  return best;
}

}  // namespace attacca::instruments
