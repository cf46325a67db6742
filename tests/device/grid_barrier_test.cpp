// Tests of the barrier between the blocks of a persistent kernel, with a thread for each block:
// after it all blocks see all writes, the last block decides, and a missing block is reported.
#include <gtest/gtest.h>
#include <attacca/persistent.hpp>

#include <algorithm>

#include "support/real_threads.hpp"

namespace attacca::test {
namespace {

using attacca::detail::GridBarrier;
using device::Patience;
using Verdict = GridBarrier::Verdict;

constexpr unsigned kBlocks = 4;

Patience patience(std::chrono::milliseconds deadline) {
  return {static_cast<std::uint64_t>(deadline.count()) * 1'000'000, nullptr, nullptr, 0, 0};
}

struct Words {
  std::vector<GridBarrier::Word> words =
      std::vector<GridBarrier::Word>(GridBarrier::words_for(kBlocks), GridBarrier::Word(0));
  GridBarrier barrier{words.data(), kBlocks};
};

/// Each block writes its cell before a step and reads all cells after it, without atomics. If the
/// barrier did not order them, the thread sanitizer would see a race.
void expect_ordered(Words& of, unsigned first_step, unsigned steps) {
  std::vector<unsigned> cells(2 * kBlocks);
  run_threads(kBlocks, [&](unsigned block) {
    for (unsigned step = first_step; step != first_step + steps; ++step) {
      unsigned* const row = cells.data() + step % 2 * kBlocks;
      row[block] = step;
      const bool is_last = step + 1 == first_step + steps;
      ASSERT_EQ(of.barrier.come(block, step, patience(std::chrono::seconds(20)),
                                [&] { return !is_last; }),
                is_last ? Verdict::stop : Verdict::go_on);
      for (unsigned other = 0; other < kBlocks; ++other) ASSERT_EQ(row[other], step);
    }
  });
}

TEST(GridBarrier, all_blocks_see_what_all_did_and_stop_together) {
  Words words;
  expect_ordered(words, 1, 2000 / kSlowdown);
}

TEST(GridBarrier, counts_steps_for_ever) {
  for (const unsigned last : {(1u << 30) - 1, (1u << 31) - 1, ~0u}) {
    SCOPED_TRACE(last);
    Words words;
    words.words[0].store((last - 3) * kBlocks, device::relaxed);  // as after step last - 3
    words.words[1].store(((last - 3) & ((1u << 30) - 1)) * 2 + 1, device::relaxed);
    expect_ordered(words, last - 2, 6);
  }
}

TEST(GridBarrier, a_block_that_does_not_come_is_named_and_all_others_leave) {
  constexpr unsigned kMissing = 2;
  Words words;
  std::vector<Verdict> verdicts(kBlocks, Verdict::go_on);
  run_threads(kBlocks, [&](unsigned block) {
    const auto come = [&](unsigned step, std::chrono::milliseconds deadline) {
      return words.barrier.come(block, step, patience(deadline), [] { return true; });
    };
    ASSERT_EQ(come(1, std::chrono::seconds(20)), Verdict::go_on);
    if (block != kMissing) verdicts[block] = come(2, std::chrono::milliseconds(20));
  });
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::overdue), 1);
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::broken), kBlocks - 2);
  EXPECT_EQ(words.barrier.first_missing(2), kMissing);
  EXPECT_EQ(words.barrier.first_missing(1), kBlocks) << "none: all have come as far";

  const auto too_late =
      words.barrier.come(kMissing, 2, patience(std::chrono::seconds(20)), [] { return true; });
  EXPECT_EQ(too_late, Verdict::broken);
  EXPECT_EQ(words.barrier.first_missing(2), kBlocks) << "none, now";
}

TEST(GridBarrier, one_block_waits_for_nobody) {
  const GridBarrier barrier{nullptr, 1};
  EXPECT_EQ(barrier.come(0, 1, patience(std::chrono::seconds(20)), [] { return true; }),
            Verdict::go_on);
  EXPECT_EQ(barrier.come(0, 2, patience(std::chrono::seconds(20)), [] { return false; }),
            Verdict::stop);
}

}  // namespace
}  // namespace attacca::test
