// Tests of the matrix kernels against doubles, and that rows do not depend on each other.
#include "kernels/linear/linear.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/host/row_block.hpp"
#include "kernels/linear/host/linear.hpp"
#include "kernels/linear/host/silu.hpp"
#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::Matrix;
using kernels::RowBlock;
using kernels::RowFormat;
using kernels::Rows;
using kernels::TensorType;

/// A product in doubles, and the magnitude that errors are relative to.
struct Product {
  double value = 0;
  double norms = 0;
};
Product product_of(const Matrix& w, std::uint32_t row, const float* x) {
  Product product;
  double w_norm = 0;
  double x_norm = 0;
  for (std::uint32_t column = 0; column < w.columns; ++column) {
    const double weight = kernels::element(w.type, w.row(row), column);
    product.value += weight * x[column];
    w_norm += weight * weight;
    x_norm += static_cast<double>(x[column]) * x[column];
  }
  product.norms = std::sqrt(w_norm * x_norm);
  return product;
}

double tolerance(RowFormat format) { return format == RowFormat::i16 ? 3e-5 : 1e-6; }

/// Weights on a device, and a copy that the test can read.
struct Weights {
  std::vector<unsigned char> bytes;
  Buffer<unsigned char> buffer;
  Matrix here;
  Matrix there;
};

class Linear : public OnEachDevice {
 protected:
  Weights weights(TensorType type, std::uint32_t rows, std::uint32_t columns, unsigned seed) const {
    std::vector<unsigned char> bytes = random_weights(type, rows, columns, seed);
    Buffer<unsigned char> copy = buffer(bytes);
    const Matrix here{bytes.data(), type, rows, columns};
    const Matrix there{copy.data(), type, rows, columns};
    return {std::move(bytes), std::move(copy), here, there};
  }

  /// Rows in a format, in a buffer of the device.
  Buffer<unsigned char> rows_of(const std::vector<float>& x, RowFormat format) const {
    std::vector<unsigned char> bytes(x.size() * sizeof(float));
    if (format == RowFormat::i16) {
      bytes.resize(x.size() / 32 * sizeof(RowBlock));
      std::vector<RowBlock> blocks(x.size() / 32);
      kernels::to_row_blocks(x.data(), static_cast<std::uint32_t>(x.size()), blocks.data());
      std::memcpy(bytes.data(), blocks.data(), bytes.size());
    } else {
      std::memcpy(bytes.data(), x.data(), bytes.size());
    }
    return buffer(bytes);
  }

  template <class Args>
  void run_kernel(const Kernel<Args>& kernel, const Args& args, unsigned blocks = 0) {
    Grid grid = kernels::grid_of(args, is_cuda());
    if (blocks != 0 && !is_cuda()) grid.blocks.x = blocks;
    Graph graph(device());
    graph.kernel(kernel, grid, args);
    run(graph);
  }

  /// y for `count` rows of x and one matrix. The rows of y behind them stay -7.
  std::vector<float> multiply(const Weights& w, const std::vector<float>& x, RowFormat format,
                              std::uint32_t count, std::uint32_t capacity, unsigned blocks = 0) {
    const Buffer<unsigned char> rows = rows_of(x, format);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<float> y = buffer(std::vector<float>(std::size_t{capacity} * w.here.rows, -7));
    run_kernel(kernels::linear(),
               kernels::LinearArgs{.x = {rows.data(), format, w.here.columns},
                                   .rows = {counts.data(), capacity},
                                   .w = {w.there},
                                   .bias = {},
                                   .parts = 1,
                                   .adds = false,
                                   .y = y.data()},
               blocks);
    return y.read();
  }
};
ATTACCA_ON_EACH_DEVICE(Linear);

TEST_P(Linear, products_of_each_type_are_right_and_rows_past_the_count_are_not_written) {
  constexpr std::uint32_t kCount = 5;
  constexpr std::uint32_t kCapacity = 7;
  for (const TensorType type : kAllTypes)
    for (const std::uint32_t outputs : {1u, 38u}) {
      const std::uint32_t columns = kernels::block_shape(type).elements == 256  ? 512
                                    : kernels::block_shape(type).elements == 32 ? 96
                                                                                : 75;
      const Weights w = weights(type, outputs, columns, 1);
      const std::vector<float> x = random_floats(std::size_t{kCapacity} * columns, 2);
      for (const RowFormat format : {RowFormat::f32, row_format_for(type, is_cuda())}) {
        SCOPED_TRACE(std::string(type_name(type)) + (format == RowFormat::f32 ? " f32" : " i16"));
        const auto y = multiply(w, x, format, kCount, kCapacity);
        for (std::uint32_t i = 0; i < kCapacity; ++i)
          for (std::uint32_t row = 0; row < outputs; ++row) {
            const Product expected = product_of(w.here, row, &x[std::size_t{i} * columns]);
            if (i < kCount)
              ASSERT_NEAR(y[i * outputs + row], expected.value, expected.norms * tolerance(format));
            else
              ASSERT_EQ(y[i * outputs + row], -7);
          }
      }
    }
}

TEST_P(Linear, a_row_has_the_same_bits_whatever_stands_beside_it_and_whoever_computes_it) {
  constexpr std::uint32_t kOutputs = 70;
  constexpr std::uint32_t kRows = 67;
  for (const TensorType type : kAllTypes) {
    SCOPED_TRACE(type_name(type));
    const std::uint32_t columns = kernels::is_quantized(type) ? 256 : 75;
    const Weights w = weights(type, kOutputs, columns, 3);
    const std::vector<float> x = random_floats(std::size_t{kRows} * columns, 4);
    const RowFormat format = row_format_for(type, is_cuda());
    const auto all = multiply(w, x, format, kRows, kRows);
    for (const std::uint32_t count : {1u, 2u, 3u, 4u, 9u})
      for (const unsigned blocks : {1u, 3u}) {
        const std::size_t first = kRows - count;
        const std::vector<float> some(x.begin() + static_cast<std::ptrdiff_t>(first * columns),
                                      x.end());
        const auto y = multiply(w, some, format, count, count, blocks);
        ASSERT_EQ(std::memcmp(y.data(), &all[first * kOutputs], y.size() * sizeof(float)), 0)
            << count << " rows in " << blocks << " blocks";
      }
  }
}

/// A rank's columns of the rows of a matrix, or of rows of x.
template <class T>
std::vector<T> cut(const std::vector<T>& all, std::size_t rows, std::size_t rank,
                   std::size_t ranks) {
  const std::size_t row = all.size() / rows, part = row / ranks;
  std::vector<T> cut;
  for (std::size_t at = 0; at < rows; ++at)
    cut.insert(cut.end(), all.begin() + static_cast<std::ptrdiff_t>(at * row + rank * part),
               all.begin() + static_cast<std::ptrdiff_t>(at * row + (rank + 1) * part));
  return cut;
}

TEST(SectionedLinear, ranks_that_have_some_sections_each_give_the_bits_of_one) {
  constexpr std::uint32_t kOutputs = 38;
  for (const TensorType type : kAllTypes)
    for (const std::uint32_t count : {1u, 2u, 7u}) {
      const std::uint32_t columns = kernels::block_shape(type).elements == 256  ? 1024
                                    : kernels::block_shape(type).elements == 32 ? 384
                                                                                : 300;
      const std::vector<unsigned char> bytes = random_weights(type, kOutputs, columns, 13);
      const std::vector<float> x = random_floats(std::size_t{count} * columns, 14);
      const std::vector<float> before = random_floats(std::size_t{count} * kOutputs, 15);
      const RowFormat format = row_format_for(type, false);
      const auto part = [&](std::uint32_t rank, std::uint32_t ranks) {
        const std::vector<unsigned char> own = cut(bytes, kOutputs, rank, ranks);
        const std::vector<float> own_x = cut(x, count, rank, ranks);
        const Matrix w{own.data(), type, kOutputs, columns / ranks};
        std::vector<RowBlock> blocks(own_x.size() / 32 + 1);
        if (format == RowFormat::i16)
          kernels::to_row_blocks(own_x.data(), static_cast<std::uint32_t>(own_x.size()),
                                 blocks.data());
        const void* rows =
            format == RowFormat::i16 ? static_cast<const void*>(blocks.data()) : own_x.data();
        std::vector<float> y = before;
        kernels::host::linear(
            {.x = {const_cast<void*>(rows), format, w.columns},
             .rows = {&count, count},
             .w = {w},
             .bias = {},
             .parts = 1,
             .adds = rank == 0,
             .y = y.data(),
             .sections = kernels::sections_for(w, static_cast<int>(ranks), false)},
            0, 1);
        return y;
      };
      const std::vector<float> one = part(0, 1);
      const auto a = part(0, 2), b = part(1, 2);
      const auto c = part(0, 4), d = part(1, 4), e = part(2, 4), f = part(3, 4);
      for (std::size_t at = 0; at < one.size(); ++at) {
        ASSERT_EQ(a[at] + b[at], one[at]) << type_name(type) << ", 2 ranks";
        ASSERT_EQ((c[at] + d[at]) + (e[at] + f[at]), one[at]) << type_name(type) << ", 4 ranks";
      }
    }
}

TEST(SectionedLinear, sections_are_whole_blocks_and_ranks_have_some_each) {
  const auto sections = [](TensorType type, std::uint32_t columns, int ranks) {
    return kernels::sections_for({nullptr, type, 1, columns}, ranks, false);
  };
  EXPECT_EQ(sections(TensorType::bf16, 576, 1), 4u);
  EXPECT_EQ(sections(TensorType::bf16, 288, 2), 2u);
  EXPECT_EQ(sections(TensorType::bf16, 144, 4), 1u);
  EXPECT_EQ(sections(TensorType::bf16, 192, 3), 1u);
  EXPECT_EQ(sections(TensorType::bf16, 577, 1), 1u);
  EXPECT_EQ(sections(TensorType::q8_0, 128, 1), 4u);
  EXPECT_EQ(sections(TensorType::q4_k, 512, 1), 2u);
  EXPECT_EQ(sections(TensorType::q4_k, 256, 2), 1u);
  EXPECT_EQ(kernels::sections_for({nullptr, TensorType::bf16, 1, 576}, 1, true), 1u);
}

TEST_P(Linear, parts_stand_side_by_side_with_their_biases_and_add_to_what_was_there) {
  constexpr std::uint32_t kCount = 3;
  constexpr std::uint32_t kColumns = 256;
  const Weights parts[] = {weights(TensorType::q4_k, 40, kColumns, 5),
                           weights(TensorType::f16, 33, kColumns, 6),
                           weights(TensorType::q6_k, 7, kColumns, 7)};
  constexpr std::uint32_t kOutputs = 80;
  const RowFormat format = row_format_for(TensorType::q4_k, is_cuda());
  const std::vector<float> x = random_floats(kCount * kColumns, 8);
  const std::vector<float> bias = random_floats(kOutputs, 9);
  const Buffer<float> biases = buffer(bias);
  const Buffer<unsigned char> rows = rows_of(x, format);
  const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({kCount});
  for (const bool adds : {false, true}) {
    const Buffer<float> y = buffer(std::vector<float>(kCount * kOutputs, 1000));
    run_kernel(kernels::linear(),
               kernels::LinearArgs{.x = {rows.data(), format, kColumns},
                                   .rows = {counts.data(), kCount},
                                   .w = {parts[0].there, parts[1].there, parts[2].there},
                                   .bias = {biases.data(), nullptr, biases.data() + 73},
                                   .parts = 3,
                                   .adds = adds,
                                   .y = y.data()});
    const auto read = y.read();
    for (std::uint32_t i = 0; i < kCount; ++i)
      for (std::uint32_t output = 0; output < kOutputs; ++output) {
        const unsigned part = output < 40 ? 0 : output < 73 ? 1 : 2;
        const std::uint32_t row = output - (part == 0 ? 0 : part == 1 ? 40 : 73);
        const Product product = product_of(parts[part].here, row, &x[std::size_t{i} * kColumns]);
        const double expected = product.value + (part == 1 ? 0 : bias[output]) + (adds ? 1000 : 0);
        ASSERT_NEAR(read[i * kOutputs + output], expected, product.norms * 3e-5 + 1e-4)
            << "row " << i << ", output " << output;
      }
  }
}

TEST_P(Linear, a_gated_product_is_silu_of_the_gate_times_the_other) {
  constexpr std::uint32_t kCount = 5;
  for (const TensorType type : {TensorType::f32, TensorType::bf16, TensorType::q4_1}) {
    SCOPED_TRACE(type_name(type));
    const std::uint32_t columns = 64;
    const std::uint32_t outputs = kernels::is_quantized(type) ? 96 : 45;
    const Weights gate = weights(type, outputs, columns, 10);
    const Weights up = weights(type, outputs, columns, 11);
    const std::vector<float> x = random_floats(kCount * columns, 12);
    const RowFormat format = row_format_for(type, is_cuda());
    const Buffer<unsigned char> rows = rows_of(x, format);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({kCount - 1});
    const Buffer<unsigned char> y =
        buffer(std::vector<unsigned char>(kCount * kernels::row_stride(format, outputs), 0xee));
    run_kernel(kernels::gated_linear(),
               kernels::GatedLinearArgs{.x = {rows.data(), format, columns},
                                        .rows = {counts.data(), kCount},
                                        .gate = gate.there,
                                        .up = up.there,
                                        .y = {y.data(), format, outputs}});
    std::vector<unsigned char> read = y.read();
    const Rows result{read.data(), format, outputs};
    for (std::uint32_t i = 0; i + 1 < kCount; ++i)
      for (std::uint32_t output = 0; output < outputs; ++output) {
        const Product g = product_of(gate.here, output, &x[i * columns]);
        const Product u = product_of(up.here, output, &x[i * columns]);
        const double expected = g.value / (1 + std::exp(-g.value)) * u.value;
        double value;
        double step = 0;
        if (format == RowFormat::i16) {
          const RowBlock& block = static_cast<const RowBlock*>(result.row(i))[output / 32];
          value = static_cast<double>(block.scale) * block.values[output % 32];
          step = block.scale;
        } else {
          value = static_cast<const float*>(result.row(i))[output];
        }
        ASSERT_NEAR(value, expected, step + g.norms * u.norms * 4 * tolerance(format));
      }
    const auto* last = static_cast<const unsigned char*>(result.row(kCount - 1));
    EXPECT_EQ(*last, 0xee) << "a row past the count was written";
  }
}

TEST_P(Linear, no_rows_are_no_work) {
  const Weights w = weights(TensorType::q8_0, 33, 64, 13);
  const auto y = multiply(w, random_floats(64, 14), row_format_for(w.here.type, is_cuda()), 0, 1);
  for (const float value : y) ASSERT_EQ(value, -7);
}

TEST(LinearGrid, small_products_stay_on_one_thread_and_no_block_is_empty) {
  kernels::LinearArgs args{};
  args.parts = 1;
  args.x.columns = 64;
  args.rows.capacity = 1;
  args.w[0] = {nullptr, TensorType::q8_0, 64, 64};
  EXPECT_EQ(kernels::grid_of(args, false).blocks.x, 1u);
  args.rows.capacity = 512;
  EXPECT_EQ(kernels::grid_of(args, false).blocks.x, 2u);
  EXPECT_EQ(kernels::grid_of(args, true).blocks.x, 64u * 32 / 256);
  args.x.format = RowFormat::i16;
  EXPECT_THROW(kernels::grid_of(args, true), BadArgument);
}

TEST(LinearCost, counts_two_operations_for_each_weight_and_row) {
  kernels::LinearArgs args{};
  args.parts = 2;
  args.x.columns = 64;
  args.rows.capacity = 3;
  args.w[0] = {nullptr, TensorType::q8_0, 10, 64};
  args.w[1] = {nullptr, TensorType::f32, 5, 64};
  const Cost cost = kernels::linear().cost(args);
  EXPECT_EQ(cost.flops, 2.0 * 3 * 15 * 64);
  EXPECT_EQ(cost.bytes, 10 * 68 + 5 * 256 + 3 * 256 + 3 * 15 * 4);
}

TEST(Silu, is_within_a_millionth_of_the_exact_value) {
  for (float start = -100; start < 100; start += 0.3f) {
    float gate[32];
    float up[32];
    for (unsigned i = 0; i < 32; ++i) {
      gate[i] = start + static_cast<float>(i) * 0.01f;
      up[i] = 1;
    }
    float result[32];
    std::copy_n(gate, 32, result);
    kernels::host::gate_32(result, up);
    for (unsigned i = 0; i < 32; ++i) {
      const double g = gate[i];
      const double expected = g / (1 + std::exp(-g));
      ASSERT_NEAR(result[i], expected, 1e-6 * std::abs(expected) + 1e-36) << g;
    }
  }
}

}  // namespace
}  // namespace attacca::test
