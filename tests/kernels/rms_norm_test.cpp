// Tests of root-mean-square normalization against doubles, and that rows do not depend on each
// other.
#include "kernels/rms_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/host/row_block.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::rms_norm_test {
namespace {

using kernels::RowBlock;
using kernels::RowFormat;

constexpr float kEpsilon = 1e-5f;

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<double> normalized(const float* x, const float* weight, std::size_t columns) {
  double sum = 0;
  for (std::size_t at = 0; at < columns; ++at) sum += static_cast<double>(x[at]) * x[at];
  const double factor = 1 / std::sqrt(sum / static_cast<double>(columns) + kEpsilon);
  std::vector<double> y(columns);
  for (std::size_t at = 0; at < columns; ++at) y[at] = x[at] * factor * weight[at];
  return y;
}

void expect_near(const float* y, const std::vector<double>& expected) {
  for (std::size_t at = 0; at < expected.size(); ++at)
    ASSERT_NEAR(y[at], expected[at], 1e-6 * std::abs(expected[at]) + 1e-12) << "column " << at;
}

class RmsNorm : public OnEachDevice {
 protected:
  /// Runs `count` rows of a step of `capacity` in `blocks` blocks, or in as many as the kernel
  /// likes.
  std::vector<float> run_rows(const std::vector<float>& x, const std::vector<float>& weight,
                              std::uint32_t count, std::uint32_t capacity,
                              const std::vector<std::int32_t>& gather, unsigned blocks = 0) {
    const auto columns = static_cast<std::uint32_t>(weight.size());
    const Buffer<float> x_buffer = buffer(x);
    const Buffer<float> weights = buffer(weight);
    const Buffer<std::int32_t> picks =
        buffer(gather.empty() ? std::vector<std::int32_t>{0} : gather);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<float> y = buffer(std::vector<float>(std::size_t{capacity} * columns, -7));
    const kernels::RmsNormArgs args{
        x_buffer.data(),           weights.data(), gather.empty() ? nullptr : picks.data(),
        {counts.data(), capacity}, kEpsilon,       {y.data(), RowFormat::f32, columns}};
    Grid grid = kernels::grid_of(args, is_cuda());
    if (blocks != 0 && !is_cuda()) grid.blocks.x = blocks;
    stream().kernel(kernels::rms_norm(), grid, args);
    stream().synchronize();
    return y.read();
  }
};
ATTACCA_ON_EACH_DEVICE(RmsNorm);

TEST_P(RmsNorm, rows_agree_with_doubles_whatever_their_length) {
  for (const std::size_t columns : {8, 17, 64, 100, 576, 4096}) {
    const auto x = random_floats(3 * columns, 1);
    const auto weight = random_floats(columns, 2);
    const auto y = run_rows(x, weight, 3, 3, {});
    for (std::size_t row = 0; row < 3; ++row)
      expect_near(&y[row * columns], normalized(&x[row * columns], weight.data(), columns));
  }
}

TEST_P(RmsNorm, gathered_rows_are_those_named) {
  const auto x = random_floats(5 * 64, 3);
  const auto weight = random_floats(64, 4);
  const auto y = run_rows(x, weight, 3, 3, {4, 0, 4});
  expect_near(&y[0], normalized(&x[4 * 64], weight.data(), 64));
  expect_near(&y[64], normalized(&x[0], weight.data(), 64));
  expect_near(&y[128], normalized(&x[4 * 64], weight.data(), 64));
}

TEST_P(RmsNorm, rows_beyond_the_count_are_not_written) {
  const auto y = run_rows(random_floats(4 * 64, 5), random_floats(64, 6), 1, 4, {});
  EXPECT_NE(y[63], -7);
  for (std::size_t at = 64; at < y.size(); ++at) ASSERT_EQ(y[at], -7);
}

TEST_P(RmsNorm, a_row_is_the_same_bits_alone_and_in_any_batch) {
  constexpr std::size_t kRows = 37;
  const auto x = random_floats(kRows * 96, 7);
  const auto weight = random_floats(96, 8);
  const auto all = run_rows(x, weight, kRows, 64, {}, 5);
  for (std::size_t row = 0; row < kRows; row += 9) {
    const auto alone = run_rows({&x[row * 96], &x[row * 96] + 96}, weight, 1, 1, {});
    EXPECT_EQ(std::memcmp(alone.data(), &all[row * 96], 96 * sizeof(float)), 0) << "row " << row;
  }
}

TEST(RmsNormHost, rows_in_the_format_i16_are_the_blocks_of_the_f32_rows) {
  constexpr std::uint32_t kColumns = 320;
  const Device device = Device::host_serial();
  const auto x = random_floats(2 * kColumns, 9);
  const auto weight = random_floats(kColumns, 10);
  const std::uint32_t count = 2;
  std::vector<float> y(2 * kColumns);
  std::vector<RowBlock> blocks(2 * kColumns / RowBlock::kElements);
  kernels::RmsNormArgs args{x.data(),    weight.data(), nullptr,
                            {&count, 2}, kEpsilon,      {y.data(), RowFormat::f32, kColumns}};
  Stream stream(device);
  stream.kernel(kernels::rms_norm(), Grid{}, args);
  args.y = {blocks.data(), RowFormat::i16, kColumns};
  stream.kernel(kernels::rms_norm(), Grid{}, args);
  stream.synchronize();
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    RowBlock expected;
    kernels::to_row_block(&y[block * RowBlock::kElements], expected);
    EXPECT_EQ(std::memcmp(&expected, &blocks[block], sizeof expected), 0) << "block " << block;
  }
}

TEST(RmsNormGrid, little_work_stays_on_one_block_and_i16_is_refused_on_cuda) {
  const std::uint32_t count = 1;
  kernels::RmsNormArgs args{nullptr,     nullptr,  nullptr,
                            {&count, 1}, kEpsilon, {nullptr, RowFormat::i16, 576}};
  EXPECT_EQ(kernels::grid_of(args, false).blocks.x, 1u);
  EXPECT_THROW(kernels::grid_of(args, true), BadArgument);
  EXPECT_EQ(kernels::rms_norm().cost(args).flops, 4.0 * 576);
}

}  // namespace
}  // namespace attacca::test::rms_norm_test
