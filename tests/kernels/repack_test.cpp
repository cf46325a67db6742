// Tests of weights that are repacked for the streamed kernels, on every device.
#include "kernels/repack.hpp"

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cmath>

#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::Matrix;
using kernels::TensorType;

TEST(Half, every_number_comes_back) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = kernels::float_of_half(half);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(kernels::float_of_half(kernels::half_of_float(value))));
    else
      EXPECT_EQ(kernels::half_of_float(value), half);
  }
}

TEST(Half, numbers_between_two_become_the_nearer_or_the_even_one) {
  for (unsigned bits = 0; bits < 0x7bff; ++bits) {
    const float here = kernels::float_of_half(static_cast<std::uint16_t>(bits));
    const float next = kernels::float_of_half(static_cast<std::uint16_t>(bits + 1));
    const float middle = (here + next) / 2;  // exact
    EXPECT_EQ(kernels::half_of_float(middle), bits % 2 == 0 ? bits : bits + 1) << middle;
    EXPECT_EQ(kernels::half_of_float(std::nextafter(middle, 0.0f)), bits) << middle;
    EXPECT_EQ(kernels::half_of_float(-std::nextafter(middle, 1e9f)), (bits + 1) | 0x8000) << middle;
  }
  EXPECT_EQ(kernels::half_of_float(65519.0f), 0x7bff);
  EXPECT_EQ(kernels::half_of_float(65520.0f), 0x7c00);
  EXPECT_EQ(kernels::half_of_float(-1e30f), 0xfc00);
}

class Repack : public OnEachDevice {
 protected:
  static constexpr std::uint32_t kRows = 19;
  static constexpr std::uint32_t kColumns = 768;

  std::vector<unsigned char> repacked(const std::vector<unsigned char>& bytes, TensorType from_type,
                                      TensorType type) {
    const Buffer<unsigned char> from = buffer(bytes);
    const std::size_t size = kRows * kernels::row_bytes(type, kColumns);
    const Buffer<unsigned char> to = buffer(std::vector<unsigned char>(size + 3, 0x55));
    const kernels::RepackArgs args{{from.data(), from_type, kRows, kColumns}, to.data(), type};
    Graph graph(device());
    graph.kernel(kernels::repack(), kernels::grid_of(args, is_cuda()), args);
    run(graph);
    std::vector<unsigned char> result = to.read();
    for (std::size_t i = size; i < result.size(); ++i) EXPECT_EQ(result[i], 0x55);
    return result;
  }
  static float at(const std::vector<unsigned char>& bytes, TensorType type, std::uint32_t row,
                  std::uint32_t column) {
    const Matrix matrix{bytes.data(), type, kRows, kColumns};
    return kernels::element(type, matrix.row(row), column);
  }
};
ATTACCA_ON_EACH_DEVICE(Repack);

TEST_P(Repack, q4_k_becomes_q4_1_whose_scales_are_the_nearest_halves) {
  const auto bytes = random_weights(TensorType::q4_k, kRows, kColumns, 5);
  const auto result = repacked(bytes, TensorType::q4_k, TensorType::q4_1);
  for (std::uint32_t row = 0; row < kRows; ++row)
    for (std::uint32_t i = 0; i < kColumns; ++i) {
      const float stored = at(bytes, TensorType::q4_k, row, i);
      const auto* block =
          bytes.data() + row * kernels::row_bytes(TensorType::q4_k, kColumns) + i / 256 * 144;
      const kernels::quantization::Part part = kernels::quantization::part_of(block, i % 256 / 32);
      // Half a last bit of the scale, at most 15 times, and of the offset.
      ASSERT_NEAR(at(result, TensorType::q4_1, row, i), stored,
                  (15 * std::abs(part.scale) + std::abs(part.offset)) / 2047)
          << row << ", " << i;
    }
}

TEST_P(Repack, every_type_becomes_q8_0_within_half_a_step_of_a_block) {
  for (const TensorType type : kAllTypes) {
    SCOPED_TRACE(type_name(type));
    auto bytes = random_weights(type, kRows, kColumns, 7);
    const std::size_t row_bytes = kernels::row_bytes(type, kColumns);
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(3 * row_bytes), row_bytes, 0);
    const auto result = repacked(bytes, type, TensorType::q8_0);
    for (std::uint32_t row = 0; row < kRows; ++row)
      for (std::uint32_t first = 0; first < kColumns; first += 32) {
        float largest = 0;
        for (std::uint32_t i = first; i < first + 32; ++i)
          largest = std::max(largest, std::abs(at(bytes, type, row, i)));
        for (std::uint32_t i = first; i < first + 32; ++i)
          ASSERT_NEAR(at(result, TensorType::q8_0, row, i), at(bytes, type, row, i),
                      largest / 96 * 0.5625f)  // the scale is rounded too
              << row << ", " << i;
      }
  }
}

TEST_P(Repack, neighbours_in_q6_k_with_one_scale_keep_their_elements_in_q8_0) {
  auto bytes = random_weights(TensorType::q6_k, kRows, kColumns, 9);
  for (std::size_t block = 0; block < bytes.size(); block += 210)
    for (std::size_t scale = block + 192; scale < block + 208; scale += 2)
      bytes[scale + 1] = bytes[scale];
  const auto result = repacked(bytes, TensorType::q6_k, TensorType::q8_0);
  for (std::uint32_t row = 0; row < kRows; ++row)
    for (std::uint32_t i = 0; i < kColumns; ++i) {
      const float stored = at(bytes, TensorType::q6_k, row, i);
      ASSERT_NEAR(at(result, TensorType::q8_0, row, i), stored, std::abs(stored) / 2047)
          << row << ", " << i;
    }
}

TEST_P(Repack, what_it_cannot_do_is_refused_with_the_types) {
  const kernels::RepackArgs args{{nullptr, TensorType::q6_k, 16, 256}, nullptr, TensorType::q4_1};
  EXPECT_THAT(
      [&] { grid_of(args, is_cuda()); },
      testing::ThrowsMessage<BadArgument>(testing::HasSubstr("Q6_K of 256 columns as Q4_1")));
}

}  // namespace
}  // namespace attacca::test
