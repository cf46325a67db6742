// Tests of places under the roofs and of the advice for each, by figures on paper.
#include <gtest/gtest.h>

#include "roofline/paper_machine.hpp"
#include "roofline/place.hpp"

namespace attacca::test {
namespace {

PlacedKernel placed(Cost cost, double time_us, double written_share = 0, double processors = 1) {
  PlacedKernel kernel{.name = "kernel", .cost = cost, .time_us = time_us};
  kernel.written_share = written_share;
  kernel.processors = processors;
  roofline::place(kernel, paper_roofs());
  return kernel;
}
RoofAdvice advice(const PlacedKernel& kernel) {
  return roofline::advice_for(kernel, paper_roofs()).value();
}

TEST(Place, a_pure_read_at_full_bandwidth_is_at_the_roof_and_needs_fewer_bytes) {
  const PlacedKernel read = placed({.bytes = 1e9}, 1000);
  EXPECT_NEAR(read.share(), 1, 0.05);
  EXPECT_EQ(read.limit, Limit::memory);
  EXPECT_EQ(advice(read).tool, Tool::fewer_bytes);
  EXPECT_NEAR(advice(read).gain_us, 500, 1);
}

TEST(Place, a_pure_copy_is_judged_by_the_roof_of_copies) {
  const PlacedKernel copy = placed({.bytes = 0.8e9}, 1000, 0.5);
  EXPECT_NEAR(copy.share(), 1, 0.05);
  EXPECT_EQ(advice(copy).tool, Tool::fewer_bytes);
  EXPECT_NEAR(placed({.bytes = 0.8e9}, 1000).share(), 0.8, 0.01) << "without declared writes";
}

TEST(Place, a_quarter_of_writes_lies_between_reading_and_copying) {
  EXPECT_NEAR(placed({.bytes = 1e9}, 1125, 0.25).share(), 1, 1e-6);
}

TEST(Place, half_of_the_bandwidth_asks_for_more_loads) {
  const PlacedKernel kernel = placed({.bytes = 1e9}, 2000);
  EXPECT_EQ(kernel.limit, Limit::memory);
  EXPECT_EQ(advice(kernel).tool, Tool::more_loads);
  EXPECT_NEAR(advice(kernel).gain_us, 1000, 1);
}

TEST(Place, what_is_faster_than_memory_is_measured_against_the_cache) {
  const PlacedKernel kernel = placed({.bytes = 1e9}, 260);
  EXPECT_TRUE(kernel.is_cached);
  EXPECT_NEAR(kernel.share(), 250.0 / 260, 1e-6);
  EXPECT_EQ(kernel.limit, Limit::memory);
}

TEST(Place, pure_multiply_adds_are_at_their_roof_and_want_faster_arithmetic) {
  const PlacedKernel fp32 = placed({.flops = 10e9}, 1000);
  EXPECT_NEAR(fp32.share(), 1, 0.05);
  EXPECT_EQ(fp32.limit, Limit::compute);
  EXPECT_EQ(advice(fp32).tool, Tool::faster_arithmetic);
  EXPECT_NEAR(advice(fp32).gain_us, 900, 1) << "bf16 is ten times as fast";
  const PlacedKernel fp8 = placed({.flops = 200e9, .arithmetic = Arithmetic::fp8}, 1000);
  EXPECT_NEAR(fp8.share(), 1, 0.05);
  EXPECT_EQ(advice(fp8).gain_us, 0) << "nothing is faster";
}

TEST(Place, half_of_the_arithmetic_asks_for_larger_tiles) {
  const PlacedKernel kernel =
      placed({.flops = 100e9, .bytes = 1e6, .arithmetic = Arithmetic::bf16}, 2000);
  EXPECT_EQ(kernel.limit, Limit::compute);
  EXPECT_EQ(advice(kernel).tool, Tool::larger_tiles);
  EXPECT_NEAR(advice(kernel).gain_us, 1000, 1);
}

TEST(Place, an_arithmetic_that_was_not_measured_is_judged_by_fp32) {
  Roofs roofs = paper_roofs();
  roofs.flops[static_cast<std::size_t>(Arithmetic::bf16)] = 0;
  EXPECT_EQ(roofs.flops_of(Arithmetic::bf16), roofs.flops_of(Arithmetic::fp32));
}

TEST(Place, a_tiny_kernel_is_bound_by_its_launch) {
  const PlacedKernel kernel = placed({.flops = 32, .bytes = 512}, 1.1);
  EXPECT_EQ(kernel.limit, Limit::launch);
  EXPECT_EQ(advice(kernel).tool, Tool::fusion);
  EXPECT_NEAR(advice(kernel).gain_us, 1.3, 0.01);
}

TEST(Place, little_work_that_takes_long_is_far_below_both_roofs) {
  const PlacedKernel kernel = placed({.flops = 32, .bytes = 512}, 100, 0, 0.25);
  EXPECT_EQ(kernel.limit, Limit::neither);
  EXPECT_EQ(advice(kernel).tool, Tool::more_blocks);
  EXPECT_NEAR(advice(kernel).gain_us, 75, 0.1);
  EXPECT_EQ(advice(placed({.flops = 32, .bytes = 512}, 100)).tool, Tool::more_loads);
}

TEST(Place, idle_processors_are_the_first_advice_below_any_roof) {
  const PlacedKernel kernel = placed({.flops = 10e9}, 2000, 0, 0.5);
  EXPECT_EQ(kernel.limit, Limit::compute);
  EXPECT_EQ(advice(kernel).tool, Tool::more_blocks);
  EXPECT_NEAR(advice(kernel).gain_us, 1000, 1);
  EXPECT_EQ(advice(placed({.bytes = 1e9}, 2000, 0, 0.5)).tool, Tool::more_blocks);
  EXPECT_EQ(advice(placed({.bytes = 1e9}, 1000, 0, 0.5)).tool, Tool::fewer_bytes) << "at the roof";
}

TEST(Place, a_kernel_without_a_cost_gets_no_advice) {
  const PlacedKernel kernel = placed({}, 100);
  EXPECT_EQ(kernel.limit, Limit::unknown);
  EXPECT_FALSE(roofline::advice_for(kernel, paper_roofs()));
}

TEST(Place, a_kernel_that_beats_every_roof_declares_too_much) {
  EXPECT_EQ(placed({.bytes = 1e9}, 200).limit, Limit::unknown);
  EXPECT_EQ(placed({.flops = 10e9}, 800).limit, Limit::unknown);
  EXPECT_EQ(placed({.flops = 10e9}, 980).limit, Limit::compute) << "that much is noise";
}

TEST(Place, gains_count_every_execution) {
  PlacedKernel kernel = placed({.bytes = 1e9}, 2000);
  kernel.count = 32;
  EXPECT_NEAR(advice(kernel).gain_us, 32'000, 1);
}

}  // namespace
}  // namespace attacca::test
