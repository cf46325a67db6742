// Tests of weights that are expanded to bf16 for products of many rows, on every device.
#include "kernels/linear/expand.hpp"

#include <gtest/gtest.h>

#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::Matrix;
using kernels::TensorType;

class Expand : public OnEachDevice {
 protected:
  void expect_rounded(TensorType type, std::uint32_t rows, std::uint32_t columns) {
    SCOPED_TRACE(testing::Message() << type_name(type) << ", " << rows << " x " << columns);
    const std::vector<unsigned char> bytes = random_weights(type, rows, columns, 11);
    const Buffer<unsigned char> from = buffer(bytes);
    const Buffer<std::uint16_t> to =
        buffer(std::vector<std::uint16_t>(std::size_t{rows} * columns + 8, 0x4567));
    const Matrix matrix{from.data(), type, rows, columns};
    const kernels::ExpandArgs args{matrix, to.data()};
    ASSERT_TRUE(can_expand(matrix));
    Graph graph(device());
    graph.kernel(expand(args), grid_of(args, is_cuda()), args);
    run(graph);
    const std::vector<std::uint16_t> result = to.read();
    const Matrix here{bytes.data(), type, rows, columns};
    for (std::uint32_t row = 0; row < rows; ++row)
      for (std::uint32_t i = 0; i < columns; ++i) {
        const float value = kernels::element(type, here.row(row), i);
        const float got = kernels::float_of_bfloat(result[row * columns + i]);
        // The nearest bf16; a product that is contracted with a sum may go to the other neighbour.
        ASSERT_NEAR(got, value, std::abs(value) / 255) << row << ", " << i;
      }
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(result[rows * columns + i], 0x4567);
  }
};
ATTACCA_ON_EACH_DEVICE(Expand);

TEST_P(Expand, every_type_and_ragged_sizes_give_the_nearest_bf16) {
  for (const TensorType type : {TensorType::q8_0, TensorType::q4_0, TensorType::q4_1})
    for (const auto& [rows, columns] : {std::pair{1u, 32u}, {16u, 576u}, {19u, 2048u}})
      expect_rounded(type, rows, columns);
}

TEST(CanExpand, what_products_of_many_rows_do_not_read_themselves) {
  const auto can = [](TensorType type, std::uint32_t columns) {
    return kernels::can_expand({nullptr, type, 16, columns});
  };
  EXPECT_TRUE(can(TensorType::q4_1, 96));
  EXPECT_FALSE(can(TensorType::q8_0, 48));
  EXPECT_FALSE(can(TensorType::bf16, 64)) << "needs no expansion";
  EXPECT_FALSE(can(TensorType::e4m3, 64)) << "becomes bf16 as it is multiplied";
  EXPECT_FALSE(can(TensorType::q4_k, 256)) << "is repacked when it is loaded";
}

}  // namespace
}  // namespace attacca::test
