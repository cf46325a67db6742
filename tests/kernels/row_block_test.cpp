// Tests of rows in the format i16.
#include "kernels/host/row_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/weights.hpp"

namespace attacca::test {
namespace {

using kernels::RowBlock;

TEST(RowBlock, the_fast_way_gives_the_bits_of_the_plain_way) {
  std::vector<float> x = random_floats(64 * 32, 1);
  for (std::size_t at = 0; at < x.size(); ++at)
    x[at] *= std::ldexp(1.0f, static_cast<int>(at / 32) * 3 - 120);
  std::fill_n(x.begin() + 32, 32, 0.0f);
  std::vector<RowBlock> fast(64);
  std::vector<RowBlock> plain(64);
  kernels::to_row_blocks(x.data(), static_cast<std::uint32_t>(x.size()), fast.data());
  for (std::size_t block = 0; block < 64; ++block)
    kernels::to_row_block(&x[block * 32], plain[block]);
  EXPECT_EQ(std::memcmp(fast.data(), plain.data(), fast.size() * sizeof(RowBlock)), 0);
}

TEST(RowBlock, an_element_is_off_by_half_a_step_at_most) {
  const std::vector<float> x = random_floats(32, 2);
  const float largest = std::abs(*std::max_element(
      x.begin(), x.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
  RowBlock block;
  kernels::to_row_blocks(x.data(), 32, &block);
  int sum = 0;
  for (std::size_t at = 0; at < 32; ++at) {
    EXPECT_NEAR(block.scale * block.values[at], x[at], 0.51f * block.scale);
    EXPECT_LE(std::abs(block.values[at]), 32639);
    sum += block.values[at];
  }
  EXPECT_FLOAT_EQ(block.scale * 32639, largest);
  EXPECT_FLOAT_EQ(block.sum, block.scale * static_cast<float>(sum));
}

TEST(RowBlock, zeros_and_the_smallest_numbers_are_zero) {
  for (const float value : {0.0f, -0.0f, 1e-40f}) {
    const std::vector<float> x(32, value);
    RowBlock block;
    kernels::to_row_blocks(x.data(), 32, &block);
    EXPECT_EQ(block.scale, 0);
    EXPECT_EQ(block.sum, 0);
    for (const std::int16_t element : block.values) EXPECT_EQ(element, 0);
  }
}

}  // namespace
}  // namespace attacca::test
