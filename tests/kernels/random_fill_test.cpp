// Tests of random numbers made on the device: their moments, and that every device makes the same
// numbers.
#include "kernels/random_fill.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/quantization.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::random_number;
using kernels::TensorType;

constexpr std::uint64_t kSeed = 42;
constexpr float kDeviation = 0.02f;

class RandomFill : public OnEachDevice {
 protected:
  template <class T>
  std::vector<T> filled(TensorType type, std::size_t size, std::uint64_t count) {
    const Buffer<T> to = buffer(std::vector<T>(size, T{7}));
    const kernels::RandomFillArgs args{to.data(), type, count, kSeed, kDeviation};
    Graph graph(device());
    graph.kernel(kernels::random_fill(), kernels::grid_of(args, is_cuda()), args);
    run(graph);
    return to.read();
  }
};
ATTACCA_ON_EACH_DEVICE(RandomFill);

TEST_P(RandomFill, small_fills_are_the_numbers_of_the_seed_and_end_where_they_should) {
  for (const std::uint64_t count : {1u, 7u, 8u, 3001u}) {
    const auto floats = filled<float>(TensorType::f32, count + 3, count);
    const auto bfloats = filled<std::uint16_t>(TensorType::bf16, count + 3, count);
    const auto halves = filled<std::uint16_t>(TensorType::f16, count + 3, count);
    for (std::uint64_t at = 0; at < count; ++at) {
      const float expected = random_number(kSeed, at, kDeviation);
      ASSERT_EQ(floats[at], expected) << at;
      ASSERT_EQ(bfloats[at], kernels::bfloat_of_float(expected)) << at;
      ASSERT_EQ(halves[at], kernels::half_of_float(expected)) << at;
    }
    for (std::uint64_t at = count; at < count + 3; ++at) {
      ASSERT_EQ(floats[at], 7);
      ASSERT_EQ(bfloats[at], 7);
      ASSERT_EQ(halves[at], 7);
    }
  }
}

TEST(RandomNumber, moments_are_those_of_a_normal_distribution_without_its_tails) {
  constexpr int kCount = 100'000;
  double sum = 0, squares = 0, fourths = 0, products = 0, before = 0, most = 0;
  for (int at = 0; at < kCount; ++at) {
    const double value = random_number(kSeed, static_cast<std::uint64_t>(at), 1);
    sum += value;
    squares += value * value;
    fourths += value * value * value * value;
    products += value * before;
    most = std::max(most, std::abs(value));
    before = value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.01);
  EXPECT_NEAR(fourths / kCount, 2.7, 0.05);  // 3 - 6 / 5 / 4, for a sum of four
  EXPECT_NEAR(products / kCount, 0, 0.01);
  EXPECT_LT(most, 3.47);
}

TEST(RandomNumber, seeds_give_sequences_that_have_nothing_in_common) {
  double products = 0;
  for (std::uint64_t at = 0; at < 10'000; ++at)
    products += static_cast<double>(random_number(1, at, 1)) * random_number(2, at, 1);
  EXPECT_NEAR(products / 10'000, 0, 0.05);
}

TEST(RandomNumber, a_type_that_cannot_be_written_is_refused_by_name) {
  const kernels::RandomFillArgs args{nullptr, TensorType::q8_0, 32, 1, 1};
  EXPECT_THROW(kernels::grid_of(args, false), BadArgument);
}

}  // namespace
}  // namespace attacca::test
