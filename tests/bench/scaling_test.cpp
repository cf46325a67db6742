// Tests of the scaling model: the terms of its prediction, its limits, and how links are read.
#include <gtest/gtest.h>

#include "ranks/scaling.hpp"

namespace bench {
namespace {

const SplitStep kStep{.compute_us = 1000, .all_reduces = 10, .bytes_each = 1'000'000};

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
