// Tests of launch counts that kernels share: however many threads ask at once, no more launches are
// given out than the limit.
#include <gtest/gtest.h>
#include <attacca/thread.hpp>

#include <numeric>

#include "support/real_threads.hpp"

namespace attacca::test {
namespace {

using detail::LaunchCounts;

/// Asks 100 times from each of four threads. Returns how often the answer was `launched`; else it
/// must be `refusal`.
template <class Charge>
unsigned given_out(LaunchStatus refusal, const Charge& charge) {
  std::vector<unsigned> given(4);
  run_threads(4, [&](unsigned thread) {
    for (int at = 0; at < 100; ++at) {
      const LaunchStatus status = charge();
      given[thread] += status == LaunchStatus::launched;
      EXPECT_TRUE(status == LaunchStatus::launched || status == refusal);
    }
  });
  return std::accumulate(given.begin(), given.end(), 0u);
}

TEST(LaunchCounts, threads_that_share_them_are_given_the_budget_and_no_more) {
  for (int round = 0; round < 50; ++round) {
    LaunchCounts counts;
    for (const LaunchMode mode : {LaunchMode::fire_and_forget, LaunchMode::sibling}) {
      // The two modes have one budget.
      const unsigned expected = mode == LaunchMode::fire_and_forget ? kMaxFireAndForget : 0;
      ASSERT_EQ(given_out(LaunchStatus::fire_and_forget_budget,
                          [&] { return detail::charge_shared(counts, mode); }),
                expected);
    }
    ASSERT_EQ(given_out(LaunchStatus::tail_budget,
                        [&] { return detail::charge_shared(counts, LaunchMode::tail); }),
              kMaxTails);
    ASSERT_EQ(given_out(LaunchStatus::relaunch_budget,
                        [&] { return detail::charge_shared_relaunch(counts); }),
              kMaxRelaunches);
    EXPECT_EQ(counts.fire_and_forget, kMaxFireAndForget);
    EXPECT_EQ(counts.tails, kMaxTails);
    EXPECT_EQ(counts.relaunches, kMaxRelaunches);
  }
}

}  // namespace
}  // namespace attacca::test
