// Tests of plans from live traffic: what pays is proposed, what does not is left alone, and the
// next window tells what was gained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/live.hpp"

namespace attacca::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr LiveOptions kOptions{.window = 100,
                               .least_gain = 0.01,
                               .costs = {.padding = 1, .miss = 2},
                               .graph_milliseconds = 0.01,
                               .limits = {8, 64}};
const Sizes kToday{{8}, {64}};

/// Decode steps that take 100 us and 50 us a token, in the graph that `sizes` has for them.
void add_steps(LivePlan& plan, std::uint32_t tokens, std::uint64_t count) {
  for (std::uint64_t at = 0; at < count; ++at)
    plan.add({Kind::decode, tokens, tokens, 100.0 + 50.0 * tokens});
}
void add_window(LivePlan& plan) {
  add_steps(plan, 2, 60);
  add_steps(plan, 8, 40);
}

TEST(LivePlan, a_window_is_full_after_its_steps) {
  LivePlan plan(kToday, kOptions);
  add_steps(plan, 2, 99);
  EXPECT_FALSE(plan.is_window_full());
  add_steps(plan, 2, 1);
  EXPECT_TRUE(plan.is_window_full());
  plan.judge_window();
  EXPECT_FALSE(plan.is_window_full());
}

TEST(LivePlan, proposes_sizes_that_pay_and_keeps_every_step_covered) {
  LivePlan plan({{4, 8}, {64}}, kOptions);
  add_window(plan);
  const LivePlan::Verdict verdict = plan.judge_window();
  ASSERT_TRUE(verdict.proposal);
  EXPECT_FALSE(verdict.gained);
  EXPECT_THAT(verdict.proposal->after.decode, ElementsAre(2, 8));
  EXPECT_THAT(verdict.proposal->after.mixed, ElementsAre(64));
  // 60 steps of 2 run in a graph of 4: 300 instead of 200 us each.
  EXPECT_NEAR(verdict.proposal->with_before.cost, 60 * 300 + 40 * 500, 1e-6);
  EXPECT_NEAR(verdict.proposal->with_after.cost, 60 * 200 + 40 * 500, 1e-6);
}

TEST(LivePlan, tells_in_the_next_window_what_was_gained) {
  LivePlan plan({{4, 8}, {64}}, kOptions);
  add_window(plan);
  const LivePlan::Verdict first = plan.judge_window();
  ASSERT_TRUE(first.proposal);
  plan.changed_to(first.proposal->after, 0.02);
  add_window(plan);
  const LivePlan::Verdict second = plan.judge_window();
  EXPECT_FALSE(second.proposal) << "the same traffic needs no other sizes";
  ASSERT_TRUE(second.gained);
  EXPECT_NEAR(second.gained->gain(), 1 - 32.0 / 38, 1e-6);
  EXPECT_THAT(describe_gain(*second.gained), HasSubstr("15.8 % less time"));
  add_window(plan);
  EXPECT_FALSE(plan.judge_window().gained) << "it is told once";
}

TEST(LivePlan, leaves_alone_what_would_not_earn_the_time_to_build_it) {
  LiveOptions slow = kOptions;
  slow.graph_milliseconds = 100;
  LivePlan plan({{4, 8}, {64}}, slow);
  add_window(plan);
  EXPECT_FALSE(plan.judge_window().proposal);
}

TEST(LivePlan, leaves_alone_what_gains_little) {
  LiveOptions strict = kOptions;
  strict.least_gain = 0.5;
  LivePlan plan({{4, 8}, {64}}, strict);
  add_window(plan);
  EXPECT_FALSE(plan.judge_window().proposal);
}

TEST(LivePlan, proposes_nothing_without_times) {
  LivePlan plan({{4, 8}, {64}}, kOptions);
  for (int at = 0; at < 100; ++at) plan.add({Kind::decode, 2, 4, 0});
  EXPECT_FALSE(plan.judge_window().proposal);
}

}  // namespace
}  // namespace attacca::planner
