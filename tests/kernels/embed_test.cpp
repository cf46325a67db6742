// Tests of the embedding table.
#include "kernels/embed.hpp"

#include <gtest/gtest.h>

#include "kernels/add_residual.hpp"
#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::TensorType;

class Embed : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(Embed);

TEST_P(Embed, rows_are_those_the_tokens_name_and_no_others_are_written) {
  constexpr std::uint32_t kVocabulary = 9;
  constexpr std::uint32_t kCapacity = 6;
  const std::vector<std::int32_t> tokens{8, 0, 3, 8, 5, 5};
  for (const TensorType type : kAllTypes) {
    SCOPED_TRACE(kernels::type_name(type));
    const std::uint32_t columns = kernels::is_quantized(type) ? 512 : 75;
    const auto bytes = random_weights(type, kVocabulary, columns, 3);
    const Buffer<unsigned char> table = buffer(bytes);
    const Buffer<std::int32_t> token_buffer = buffer(tokens);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({4});
    const Buffer<float> y = buffer(std::vector<float>(kCapacity * columns, -7));
    const kernels::EmbedArgs args{token_buffer.data(),
                                  {count.data(), kCapacity},
                                  {table.data(), type, kVocabulary, columns},
                                  y.data()};
    Graph graph(device());
    graph.kernel(kernels::embed(), kernels::grid_of(args, is_cuda()), args);
    run(graph);
    const std::vector<float> rows = y.read();
    const kernels::Matrix matrix{bytes.data(), type, kVocabulary, columns};
    for (std::size_t row = 0; row < kCapacity; ++row)
      for (std::uint32_t column = 0; column < columns; ++column) {
        const float expected =
            row < 4 ? kernels::element(type, matrix.row(static_cast<std::uint64_t>(tokens[row])),
                                       column)
                    : -7;
        ASSERT_FLOAT_EQ(rows[row * columns + column], expected) << row << ", " << column;
      }
  }
}

TEST_P(Embed, into_a_residual_leaves_what_products_that_add_leave_beside_it) {
  const std::uint32_t columns = 64;
  const auto bytes = random_weights(TensorType::bf16, 9, columns, 3);
  const kernels::Matrix here{bytes.data(), TensorType::bf16, 9, columns};
  const Buffer<unsigned char> table = buffer(bytes);
  const Buffer<std::int32_t> tokens = buffer<std::int32_t>({8, 0, 3});
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({2});
  const std::vector<float> norm = random_floats(columns, 4);
  const Buffer<float> norms = buffer(norm);
  const Buffer<float> values = buffer(std::vector<float>(3 * columns, -7));
  const Buffer<std::uint16_t> scaled = buffer(std::vector<std::uint16_t>(3 * columns, 0x4567));
  const Buffer<std::uint16_t> rest = buffer(std::vector<std::uint16_t>(3 * columns, 0x4567));
  const Buffer<float> squares = buffer(std::vector<float>(3 * columns / 16, -7));
  const kernels::EmbedResidualArgs args{
      tokens.data(),
      {count.data(), 3},
      {table.data(), TensorType::bf16, 9, columns},
      {values.data(), scaled.data(), squares.data(), columns, rest.data()},
      norms.data()};
  Graph graph(device());
  graph.kernel(kernels::embed_residual(), kernels::grid_of(args, is_cuda()), args);
  run(graph);
  const auto after = values.read();
  const auto sums = squares.read();
  const auto rounded = scaled.read();
  const auto rests = rest.read();
  for (std::uint32_t i = 0; i < columns; ++i) {
    const float expected = kernels::element(TensorType::bf16, here.row(8), i);
    EXPECT_EQ(after[i], expected);
    EXPECT_EQ(rounded[i], kernels::bfloat_of_float(expected * norm[i]));
    EXPECT_NEAR(kernels::float_of_bfloat(rounded[i]) + kernels::float_of_bfloat(rests[i]),
                expected * norm[i], std::abs(expected * norm[i]) * 1e-5);
    EXPECT_EQ(rests[2 * columns + i], 0x4567);
    EXPECT_EQ(after[2 * columns + i], -7);
  }
  double sum = 0;
  for (std::uint32_t i = 16; i < 32; ++i) sum += static_cast<double>(after[i]) * after[i];
  EXPECT_NEAR(sums[1], sum, 1e-5 * sum);
}

TEST_P(Embed, rows_that_are_added_to_a_residual_leave_it_ready_for_the_next_norm) {
  const std::uint32_t columns = 48;
  const std::vector<float> before = random_floats(3 * columns, 5),
                           x = random_floats(3 * columns, 6);
  const std::vector<float> norm = random_floats(columns, 7);
  const Buffer<float> added = buffer(x), norms = buffer(norm);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({2});
  Buffer<float> values = buffer(before), squares(device(), 3 * columns / 16);
  Buffer<std::uint16_t> scaled(device(), 3 * columns);
  const kernels::AddResidualArgs args{{added.data()},
                                      1,
                                      {count.data(), 3},
                                      {values.data(), scaled.data(), squares.data(), columns},
                                      norms.data()};
  Graph graph(device());
  graph.kernel(kernels::add_residual(), kernels::grid_of(args, is_cuda()), args);
  run(graph);
  const auto after = values.read(), sums = squares.read();
  const auto rounded = scaled.read();
  for (std::uint32_t i = 0; i < 3 * columns; ++i) {
    ASSERT_EQ(after[i], i < 2 * columns ? before[i] + x[i] : before[i]) << i;
    if (i < 2 * columns) {
      ASSERT_EQ(rounded[i], kernels::bfloat_of_float(after[i] * norm[i % columns])) << i;
    }
  }
  for (std::uint32_t part = 0; part < 2 * columns / 16; ++part) {
    double sum = 0;
    for (std::uint32_t i = 16 * part; i < 16 * (part + 1); ++i)
      sum += static_cast<double>(after[i]) * after[i];
    EXPECT_NEAR(sums[part], sum, 1e-5 * sum) << part;
  }
}

}  // namespace
}  // namespace attacca::test
