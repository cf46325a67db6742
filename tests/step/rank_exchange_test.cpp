// Tests of exchanges that are kernels on symmetric memory, between threads with a host device each:
// sums in the order of ranks, parts for rank 0, tokens from rank 0, and a rank that does not come.
#include <gmock/gmock.h>
#include <attacca/memory.hpp>
#include <attacca/ranks.hpp>

#include <cmath>
#include <latch>
#include <vector>

#include "kernels/rank_exchange.hpp"
#include "step/linked_ranks.hpp"

namespace attacca::step {
namespace {

using kernels::RankExchangeArgs;
using kernels::RankPattern;

/// One exchange, in blocks of its own as on a GPU.
struct Case {
  RankPattern pattern;
  std::uint32_t rows, capacity, each, blocks;
};

/// Values of very different sizes, so that the order of sums shows.
float value_of(std::uint32_t round, int rank, std::size_t at) {
  const auto mixed = static_cast<std::uint32_t>((at + 1) * 2654435761u + round * 40503u +
                                                static_cast<std::uint32_t>(rank) * 2246822519u);
  return std::ldexp(static_cast<float>(mixed >> 16), static_cast<int>(mixed % 29) - 14);
}

/// The sum of ranks from `first` on: of the largest power of two below `count`, and of the rest.
float sum_in_pairs(std::uint32_t round, std::size_t at, int first, int count) {
  if (count == 1) return value_of(round, first, at);
  int half = 1;
  while (2 * half < count) half *= 2;
  return sum_in_pairs(round, at, first, half) + sum_in_pairs(round, at, first + half, count - half);
}

/// What rank `rank` must find in its memory, which held `before`.
std::vector<float> expected_of(const Case& c, std::uint32_t round, int rank, int ranks,
                               std::vector<float> before) {
  const std::size_t moved = std::size_t{c.rows} * c.each, part = std::size_t{c.capacity} * c.each;
  for (std::size_t at = 0; at < moved; ++at) {
    if (c.pattern == RankPattern::sum) {
      before[at] = sum_in_pairs(round, at, 0, ranks);
    } else if (c.pattern == RankPattern::share && rank != 0) {
      before[at] = value_of(round, 0, at);
    } else if (c.pattern == RankPattern::gather && rank == 0) {
      for (int other = 0; other < ranks; ++other)
        before[static_cast<std::size_t>(other) * part + at] = value_of(round, other, at);
    }
  }
  return before;
}

void expect_exchanges(int ranks, const std::vector<Case>& cases) {
  run_loopback(ranks, [&](const Group& group) {
    const Device device = Device::host(1);
    const LinkedRanks linked(device, group);
    Stream stream(device);
    std::uint32_t round = 0;
    for (int again = 0; again < 3; ++again)
      for (const Case& c : cases) {
        ++round;
        const std::size_t part = std::size_t{c.capacity} * c.each;
        std::vector<float> from(part), to(part * static_cast<std::size_t>(ranks), -1.0f);
        for (std::size_t at = 0; at < part; ++at) from[at] = value_of(round, group.rank(), at);
        std::uint32_t rows = c.rows;
        const RankExchangeArgs args{.link = linked.link(),
                                    .from = reinterpret_cast<const std::uint32_t*>(from.data()),
                                    .to = reinterpret_cast<std::uint32_t*>(to.data()),
                                    .rows = {&rows, c.capacity},
                                    .each = c.each,
                                    .pattern = c.pattern};
        const std::vector<float> wanted = expected_of(c, round, group.rank(), ranks, to);
        stream.kernel(kernels::rank_exchange(), Grid{Dim3{c.blocks}, Dim3{1}}, args);
        stream.synchronize();
        EXPECT_TRUE(to == wanted) << "round " << round << ", rank " << group.rank() << " of "
                                  << ranks << ", pattern " << static_cast<int>(c.pattern);
      }
  });
}

/// Grids and sizes change from one exchange to the next, as they do from step to step.
TEST(RankExchange, gives_sums_in_pairs_parts_and_tokens) {
  std::vector<Case> cases;
  for (const RankPattern pattern : {RankPattern::sum, RankPattern::gather, RankPattern::share}) {
    cases.push_back({pattern, 3, 4, 8, 1});
    cases.push_back({pattern, 1, 2, 5, 2});  // not by fours, and a block without work
    cases.push_back({pattern, 7, 7, 13, 3});
    cases.push_back({pattern, 0, 3, 8, 2});
    cases.push_back({pattern, 9, 9, 2048, 1});  // three pieces
    cases.push_back({pattern, 9, 10, 4096, 3});
  }
  for (const int ranks : {2, 3, 4, 5}) expect_exchanges(ranks, cases);
}

TEST(RankExchange, names_a_rank_that_does_not_come_and_does_not_wait_again) {
  std::latch others(2);
  const auto body = [&](const Group& group) {
    const Device device = Device::host(1);
    const LinkedRanks linked(device, group);
    if (group.rank() == 1) return others.wait();  // it does not exchange
    Stream stream(device);
    float value = 1;
    std::uint32_t rows = 1;
    const auto word = reinterpret_cast<std::uint32_t*>(&value);
    const RankExchangeArgs args{.link = linked.link(),
                                .from = word,
                                .to = word,
                                .rows = {&rows, 1},
                                .each = 1,
                                .pattern = RankPattern::sum};
    for (int round = 0; round < 100; ++round)  // would take 200 seconds
      stream.kernel(kernels::rank_exchange(), Grid{}, args);
    EXPECT_THAT([&] { stream.synchronize(); },
                testing::ThrowsMessage<WaitOverdue>(testing::HasSubstr("for rank 1")));
    EXPECT_EQ(linked.link().lost(), 2u);
    others.arrive_and_wait();
  };
  run_loopback(3, body, {.deadline = std::chrono::seconds(2)});
}

TEST(RankExchange, ends_its_waits_when_the_host_says_so) {
  run_loopback(2, [](const Group& group) {
    const Device device = Device::host(1);
    LinkedRanks linked(device, group);
    if (group.rank() == 1) return group.barrier().run();
    Stream stream(device);
    float value = 1;
    std::uint32_t rows = 1;
    const auto word = reinterpret_cast<std::uint32_t*>(&value);
    stream.kernel(kernels::rank_exchange(), Grid{},
                  {.link = linked.link(),
                   .from = word,
                   .to = word,
                   .rows = {&rows, 1},
                   .each = 1,
                   .pattern = RankPattern::sum});
    linked.stop();
    EXPECT_NO_THROW(stream.synchronize());
    group.barrier().run();
  });
}

}  // namespace
}  // namespace attacca::step
