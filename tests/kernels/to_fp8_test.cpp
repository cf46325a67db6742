// Tests of weights in 8 bits: every e4m3 number, rounding, and rows with their scales.
#include "kernels/to_fp8.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::e4m3_of_float;
using kernels::float_of_e4m3;
using kernels::Matrix;
using kernels::TensorType;

/// The number that e4m3 bits stand for, by the format's definition.
double number(unsigned bits) {
  const unsigned exponent = bits >> 3 & 15;
  const unsigned fraction = bits & 7;
  const double size = exponent == 0 ? std::ldexp(fraction, -9)
                                    : std::ldexp(8 + fraction, static_cast<int>(exponent) - 10);
  return bits & 0x80 ? -size : size;
}

TEST(E4m3, every_number_is_what_the_format_says_and_comes_back) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float value = float_of_e4m3(static_cast<std::uint8_t>(bits));
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(value, number(bits)) << bits;
      EXPECT_EQ(e4m3_of_float(value), bits);
    }
  }
}

TEST(E4m3, numbers_between_two_become_the_nearer_or_the_even_one) {
  for (unsigned bits = 0; bits < 0x7e; ++bits) {
    const double here = number(bits);
    const double next = number(bits + 1);
    const auto middle = static_cast<float>((here + next) / 2);
    EXPECT_EQ(e4m3_of_float(middle), bits % 2 == 0 ? bits : bits + 1) << middle;
    EXPECT_EQ(e4m3_of_float(std::nextafter(middle, 0.0f)), bits) << middle;
    EXPECT_EQ(e4m3_of_float(std::nextafter(middle, 1e9f)), bits + 1) << middle;
    EXPECT_EQ(e4m3_of_float(-std::nextafter(middle, 1e9f)), (bits + 1) | 0x80) << middle;
  }
  EXPECT_EQ(float_of_e4m3(e4m3_of_float(1e30f)), 448);
  EXPECT_EQ(float_of_e4m3(e4m3_of_float(-std::numeric_limits<float>::infinity())), -448);
  EXPECT_TRUE(std::isnan(float_of_e4m3(e4m3_of_float(std::numeric_limits<float>::quiet_NaN()))));
}

class ToFp8 : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(ToFp8);

TEST_P(ToFp8, rows_of_each_type_keep_their_largest_element_and_lose_a_sixteenth_at_most) {
  constexpr std::uint32_t kRows = 19;
  for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::bf16})
    for (const std::uint32_t columns : {1u, 33u, 416u}) {
      SCOPED_TRACE(testing::Message() << type_name(type) << ", " << columns << " columns");
      auto bytes = random_weights(type, kRows, columns, 3);
      const std::size_t row_bytes = kernels::row_bytes(type, columns);
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(7 * row_bytes), row_bytes, 0);
      const Buffer<unsigned char> from = buffer(bytes);
      const Buffer<std::uint8_t> to = buffer(std::vector<std::uint8_t>(kRows * columns + 3, 0x55));
      const Buffer<float> scales = buffer(std::vector<float>(kRows + 1, -7));
      const kernels::ToFp8Args args{{from.data(), type, kRows, columns}, to.data(), scales.data()};
      Graph graph(device());
      graph.kernel(kernels::to_fp8(), kernels::grid_of(args, is_cuda()), args);
      run(graph);
      const auto result = to.read();
      const auto scale = scales.read();
      const Matrix here{bytes.data(), type, kRows, columns};
      for (std::uint32_t row = 0; row < kRows; ++row) {
        float largest = 0;
        for (std::uint32_t i = 0; i < columns; ++i)
          largest = std::max(largest, std::abs(kernels::element(type, here.row(row), i)));
        ASSERT_EQ(scale[row], largest / 448);
        float back = 0;
        for (std::uint32_t i = 0; i < columns; ++i) {
          const float value = kernels::element(type, here.row(row), i);
          const float kept = float_of_e4m3(result[row * columns + i]) * scale[row];
          // Half of the last bit; for the smallest numbers it is as large as for 2^-6.
          ASSERT_NEAR(kept, value, std::max(std::abs(value) / 16, scale[row] / 1024) * 1.0001f);
          back = std::max(back, std::abs(kept));
        }
        ASSERT_FLOAT_EQ(back, largest);
      }
      EXPECT_EQ(result[kRows * columns], 0x55);
      EXPECT_EQ(scale[kRows], -7);
    }
}

}  // namespace
}  // namespace attacca::test
