// Tests of the scaling model: the terms of its prediction, its limits, and how links are read.
#include <gtest/gtest.h>

#include "ranks/scaling.hpp"

namespace bench {
namespace {

const SplitStep kStep{
    .compute_us = {{1, 1000}},
    .exchanges = std::vector<StepExchange>(10, {StepExchange::Kind::all_reduce, 1'000'000})};

TEST(Scaling, one_rank_exchanges_nothing) {
  const Prediction one = predict(kStep, {"slow", 100, 1e6}, 1);
  EXPECT_EQ(one.step_us(), 1000);
}

TEST(Scaling, a_step_is_its_share_of_the_kernels_and_its_exchanges) {
  // Four ranks: two rounds out and two back of 5 µs, and 3/4 of a megabyte twice at 1 GB/s.
  const Prediction four = predict(kStep, {"link", 5, 1e9}, 4);
  EXPECT_DOUBLE_EQ(four.compute_us, 250);
  EXPECT_DOUBLE_EQ(four.exchange_us, 10 * (4 * 5 + 1500));
}

TEST(Scaling, a_gather_costs_half_of_an_all_reduce) {
  SplitStep step = kStep;
  for (StepExchange& exchange : step.exchanges) exchange.kind = StepExchange::Kind::all_gather;
  EXPECT_DOUBLE_EQ(predict(step, {"link", 5, 1e9}, 4).exchange_us, 10 * (2 * 5 + 750));
}

TEST(Scaling, what_parts_were_seen_to_take_tells_what_no_rank_is_spared) {
  SplitStep step = kStep;
  step.compute_us = {{1, 1000}, {2, 610}, {4, 400}};  // 200 stay, 800 are divided
  EXPECT_EQ(compute_us(step, 2), 610);
  EXPECT_DOUBLE_EQ(compute_us(step, 8), 300);
  EXPECT_NEAR(compute_us(step, 1024), 200, 1);
  step.compute_us = {{1, 1000}, {2, 400}};  // faster than half
  EXPECT_DOUBLE_EQ(compute_us(step, 4), 250);
  step.compute_us = {{1, 1000}, {2, 1200}};
  EXPECT_DOUBLE_EQ(compute_us(step, 4), 1150) << "more ranks are not slower for ever";
}

TEST(Scaling, counts_that_were_measured_are_predicted_too) {
  SplitStep step = kStep;
  step.compute_us = {{1, 1000}, {3, 400}};
  const auto all = predict_all(step, {"link", 5, 1e9}, 4);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[2].ranks, 3u);
  EXPECT_EQ(all[2].compute_us, 400);
}

TEST(Scaling, a_free_link_scales_for_ever_and_a_slow_one_not_at_all) {
  const auto free = predict_all(kStep, {"free", 1e-9, 1e30}, 1024);
  EXPECT_EQ(free.size(), 11u);
  EXPECT_EQ(fastest(free).ranks, 1024u);
  EXPECT_FALSE(first_bound_by_exchange(free));
  const auto slow = predict_all(kStep, {"slow", 1000, 1e6}, 1024);
  EXPECT_EQ(fastest(slow).ranks, 1u);
  EXPECT_EQ(first_bound_by_exchange(slow)->ranks, 2u);
}

TEST(Scaling, links_are_read_from_name_latency_and_rate) {
  const auto link = link_of("NVLink:2.5:450");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->name, "NVLink");
  EXPECT_EQ(link->latency_us, 2.5);
  EXPECT_EQ(link->bytes_per_second, 450e9);
  for (const char* wrong :
       {"", "a", "a:1", ":1:2", "a:0:2", "a:1:-2", "a:x:2", "a:1:2:3", "a:1:inf"})
    EXPECT_FALSE(link_of(wrong)) << wrong;
}

}  // namespace
}  // namespace bench
