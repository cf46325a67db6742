// Tests of rows that become f16: their bits, and the squares by which a product undoes their scale.
#include "kernels/linear/half_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/quantization.hpp"
#include "kernels/residual.hpp"
#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::half_rows_test {
namespace {

using Bits = std::vector<std::uint16_t>;

constexpr std::uint32_t kColumns = 2112, kParts = kColumns / kernels::Residual::kPart;

class HalfRows : public OnEachDevice {
 protected:
  struct Result {
    Bits x;
    std::vector<float> squares;
    /// The factor of a norm with an epsilon of 0.
    double factor(std::size_t row) const {
      double sum = 0;
      for (std::size_t i = 0; i < kParts; ++i) sum += squares[row * kParts + i];
      return 1 / std::sqrt(sum / kColumns);
    }
  };
  Result result(const Bits& x, std::uint32_t count, const std::vector<float>& squares = {}) {
    const auto capacity = static_cast<std::uint32_t>(x.size() / kColumns);
    const Buffer<std::uint16_t> rows = buffer(x);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<float> given =
        buffer(squares.empty() ? std::vector<float>(std::size_t{capacity} * kParts, -7) : squares);
    const kernels::HalfRowsArgs args{.x = rows.data(),
                                     .columns = kColumns,
                                     .squares = squares.empty() ? nullptr : given.data(),
                                     .epsilon = 0.5f,
                                     .rows = {counts.data(), capacity},
                                     .scaled_squares = given.data()};
    Graph graph(device());
    graph.kernel(kernels::half_rows(), grid_of(args, is_cuda()), args);
    run(graph);
    return {rows.read(), given.read()};
  }
};
ATTACCA_ON_EACH_DEVICE(HalfRows);

TEST_P(HalfRows, rows_of_every_size_keep_their_bits_and_no_other_row_is_written) {
  constexpr int kExponents[] = {-20, -3, 0, 9, 18, 40};
  constexpr std::uint32_t kCount = 6;
  const std::vector<float> numbers = random_floats((kCount + 1) * kColumns, 1);
  Bits x;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    x.push_back(kernels::bfloat_of_float(
        std::ldexp(numbers[i], i < kCount * kColumns ? kExponents[i / kColumns] : 0)));
  const Result got = result(x, kCount);
  for (std::size_t row = 0; row < kCount; ++row)
    for (std::size_t i = row * kColumns; i < (row + 1) * kColumns; ++i)
      ASSERT_EQ(kernels::float_of_half(got.x[i]) * got.factor(row), kernels::float_of_bfloat(x[i]))
          << "row " << row << ", column " << i % kColumns;
  for (std::size_t i = kCount * kColumns; i < x.size(); ++i) ASSERT_EQ(got.x[i], x[i]);
  for (std::size_t i = kCount * kParts; i < got.squares.size(); ++i) ASSERT_EQ(got.squares[i], -7);
}

TEST_P(HalfRows, the_norm_is_the_one_that_was_asked_for) {
  Bits x(2 * kColumns, 0);
  x[5] = kernels::bfloat_of_float(1000);
  x[kColumns + 9] = kernels::bfloat_of_float(-0.01f);
  std::vector<float> squares(2 * kParts, 2);
  squares[kParts + 1] = 3000;
  const Result got = result(x, 2, squares);
  const double first = 1 / std::sqrt(2.0 * kParts / kColumns + 0.5);
  const double second = 1 / std::sqrt((2.0 * kParts + 2998) / kColumns + 0.5);
  EXPECT_NEAR(kernels::float_of_half(got.x[5]) * got.factor(0), 1000 * first, 1e-3);
  EXPECT_NEAR(kernels::float_of_half(got.x[kColumns + 9]) * got.factor(1),
              kernels::float_of_bfloat(x[kColumns + 9]) * second, 1e-8);
}

TEST_P(HalfRows, zeros_stay_zeros_and_what_is_no_number_stays_none) {
  Bits x(2 * kColumns, 0);
  x[kColumns + 3] = kernels::bfloat_of_float(std::numeric_limits<float>::quiet_NaN());
  const Result got = result(x, 2);
  EXPECT_TRUE(std::isnan(kernels::float_of_half(got.x[kColumns + 3])));
  EXPECT_EQ(Bits(got.x.begin(), got.x.begin() + kColumns), Bits(kColumns, 0));
  EXPECT_TRUE(std::isfinite(got.factor(0)));
}

}  // namespace
}  // namespace attacca::test::half_rows_test
