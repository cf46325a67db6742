// Tests of streamed linear layers against doubles: every type of weights and every epilogue, odd
// sizes, norms, gathered rows, and rows that do not depend on each other.
#include "kernels/linear/streamed_linear.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "kernels/streamed_world.hpp"
#include "kernels/weights.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::streamed_linear_test {
namespace {

using kernels::Residual;

class StreamedLinear : public StreamedWorld {};
ATTACCA_ON_EACH_DEVICE(StreamedLinear);

std::vector<Sizes> sizes(bool is_cuda, TensorType type) {
  std::vector<Sizes> all{{16, 32, 1, 1},   {48, 64, 3, 5},     {16, 576, 8, 8},
                         {64, 96, 9, 12},  {32, 160, 7, 16},   {32, 64, 37, 40},
                         {64, 96, 0, 3},   {32, 32, 33, 48},   {80, 544, 2, 8},
                         {16, 1536, 1, 8}, {32, 1088, 17, 24}, {16, 2080, 16, 16}};
  if (!is_cuda) return all;
  // Several tiles for each block, and shapes of real models.
  for (const Sizes& s : {Sizes{6144, 4096, 1, 1}, Sizes{4224, 4096, 0, 8}, Sizes{28672, 512, 8, 8},
                         Sizes{4096, 14336, 5, 8}, Sizes{2048, 8192, 33, 40}, Sizes{960, 576, 8, 8},
                         Sizes{1536, 576, 7, 8}, Sizes{576, 1536, 2, 8}, Sizes{49152, 576, 17, 24}})
    all.push_back(s);
  if (type != TensorType::bf16) return all;
  for (const Sizes& s :
       {Sizes{4224, 512, 2, 8}, Sizes{4096, 4096, 13, 16}, Sizes{4096, 2048, 64, 64},
        Sizes{10240, 1024, 50, 64}, Sizes{2048, 512, 200, 256}})
    all.push_back(s);
  return all;
}
/// Checks all outputs of a small matrix and some of a large one.
std::uint32_t stride_of(const Sizes& s) { return s.rows > 1000 ? s.rows / 40 + 1 : 1; }

TEST_P(StreamedLinear, products_are_stored_with_their_bias_and_no_other_row_is_written) {
  for (const TensorType type : kTypes)
    for (const Sizes& s : sizes(is_cuda(), type)) {
      SCOPED_TRACE(testing::Message() << type_name(type) << ", " << s);
      const Weights w = weights(type, s, 1);
      const Rows x = rows(s.capacity, s.columns, 2);
      const std::vector<float> bias = random_floats(s.rows, 3);
      const Buffer<float> biases = buffer(bias);
      const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
      const Buffer<float> y = buffer(std::vector<float>(std::size_t{s.capacity} * s.rows, -7));
      StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
      args.bias = biases.data();
      args.y = y.data();
      run_kernel(args);
      const std::vector<float> result = y.read();
      for (std::uint32_t output = 0; output < s.rows; output += stride_of(s)) {
        const std::vector<double> row_of_w = w.row(output);
        for (std::size_t row = 0; row < s.capacity; ++row) {
          const float value = result[row * s.rows + output];
          const Product expected = product(row_of_w, x, row, type);
          if (row >= s.count)
            ASSERT_EQ(value, -7) << row << ", " << output;
          else
            ASSERT_NEAR(value, expected.value + bias[output], expected.tolerance + 1e-6)
                << row << ", " << output;
        }
      }
    }
}

TEST_P(StreamedLinear, e4m3_weights_below_the_smallest_normal_one_count) {
  const Sizes s{32, 96, 3, 8};
  Weights w = weights(TensorType::e4m3, s, 1);
  for (std::size_t i = 0; i < w.bytes.size(); ++i)
    w.bytes[i] = static_cast<unsigned char>((w.bytes[i] & 0x80) | (1 + i % 7));
  w.byte_buffer.write(w.bytes);
  const Rows x = rows(s.capacity, s.columns, 2);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
  const Buffer<float> y = buffer(std::vector<float>(std::size_t{s.capacity} * s.rows));
  StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
  args.y = y.data();
  run_kernel(args);
  const std::vector<float> result = y.read();
  for (std::uint32_t output = 0; output < s.rows; ++output)
    for (std::size_t row = 0; row < s.count; ++row) {
      const Product expected = product(w.row(output), x, row, TensorType::e4m3);
      ASSERT_NEAR(result[row * s.rows + output], expected.value, expected.tolerance);
    }
}

TEST_P(StreamedLinear, x_of_any_size_keeps_its_bits_beside_f16_weights_of_any_size) {
  // One column of x is not 0, so each output is one product, which has no more bits than a float.
  const Sizes s{64, 96, 8, 8};
  Weights w = weights(TensorType::f16, s, 1);
  for (std::size_t i = 0; i < w.bytes.size(); ++i)
    w.bytes[i] =
        static_cast<unsigned char>(i % 2 == 0 ? 37 * i : (41 * i % 0x7b) | (i << 6 & 0x80));
  w.byte_buffer.write(w.bytes);
  Rows x = rows(s.capacity, s.columns, 2);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
  const Buffer<float> y = buffer(std::vector<float>(std::size_t{s.capacity} * s.rows));
  StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
  args.y = y.data();
  Random random(3);
  for (int exponent = -21; exponent <= 30; ++exponent) {
    std::fill(x.x.begin(), x.x.end(), std::uint16_t{0});
    std::vector<std::size_t> columns;
    for (std::size_t row = 0; row < s.capacity; ++row) {
      columns.push_back(random.bits() % s.columns);
      const float size = 1 + static_cast<float>(random.bits() >> 25) / 128;
      x.x[row * s.columns + columns.back()] =
          kernels::bfloat_of_float(std::ldexp(row % 2 == 0 ? size : -size, exponent));
    }
    x.x_buffer.write(x.x);
    run_kernel(args);
    const std::vector<float> result = y.read();
    for (std::uint32_t output = 0; output < s.rows; ++output) {
      const std::vector<double> row_of_w = w.row(output);
      for (std::size_t row = 0; row < s.capacity; ++row)
        ASSERT_EQ(result[row * s.rows + output],
                  row_of_w[columns[row]] * x.at(row, columns[row], false))
            << "exponent " << exponent;
    }
  }
}

TEST_P(StreamedLinear, what_rounding_left_of_x_counts_for_quantized_weights_where_it_is_given) {
  const Sizes s{is_cuda() ? 2112u : 32u, 1120, 5, 8};
  for (const TensorType type : kTypes) {
    SCOPED_TRACE(type_name(type));
    const Weights w = weights(type, s, 1);
    const Rows x = rows(s.capacity, s.columns, 2);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
    const Buffer<float> y = buffer(std::vector<float>(std::size_t{s.capacity} * s.rows));
    for (const bool has_rest : {false, true}) {
      StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
      if (!has_rest) args.x_rest = nullptr;
      args.y = y.data();
      run_kernel(args);
      const std::vector<float> result = y.read();
      for (std::uint32_t output = 0; output < s.rows; output += stride_of(s)) {
        const std::vector<double> row_of_w = w.row(output);
        for (std::size_t row = 0; row < s.count; ++row) {
          const Product expected =
              product(row_of_w, x, row, type, has_rest && kernels::is_quantized(type));
          ASSERT_NEAR(result[row * s.rows + output], expected.value, expected.tolerance);
        }
      }
    }
  }
}

TEST_P(StreamedLinear, a_row_has_the_same_bits_whatever_other_rows_there_are) {
  const Sizes s{is_cuda() ? 4096u : 32u, is_cuda() ? 1024u : 256u, 8, 8};
  constexpr std::uint32_t kMost = 17;
  for (const TensorType type : kTypes) {
    SCOPED_TRACE(type_name(type));
    const Weights w = weights(type, s, 1);
    const Rows x = rows(kMost, s.columns, 2);
    const auto result = [&](std::uint32_t first, std::uint32_t count, std::uint32_t capacity) {
      const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
      const Buffer<float> y = buffer(std::vector<float>(std::size_t{capacity} * s.rows));
      StreamedLinearArgs args = plain(x, counts, capacity, w.matrix);
      args.x += std::size_t{first} * s.columns;
      args.x_rest += std::size_t{first} * s.columns;
      args.y = y.data();
      run_kernel(args);
      const std::vector<float> all = y.read();
      return std::vector<float>(all.begin(), all.begin() + s.rows);
    };
    for (std::uint32_t row = 0; row < kMost; row += 3) {
      const std::vector<float> alone = result(row, 1, 1);
      EXPECT_EQ(result(row, kMost - row, kMost), alone);
      EXPECT_EQ(result(row, std::min(kMost - row, 8u), 8), alone);
    }
  }
}

TEST_P(StreamedLinear, a_row_beside_f16_weights_has_the_same_bits_beside_a_row_of_large_numbers) {
  const Sizes s{is_cuda() ? 4096u : 32u, is_cuda() ? 1120u : 256u, 8, 8};
  const Weights w = weights(TensorType::f16, s, 1);
  Rows x = rows(s.capacity, s.columns, 2);
  for (std::uint32_t i = 0; i < s.columns; ++i)
    x.x[i] = kernels::bfloat_of_float(static_cast<float>(number(x.x[i])) * 100);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
  const Buffer<float> y = buffer(std::vector<float>(std::size_t{s.capacity} * s.rows));
  StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
  args.y = y.data();
  const auto first_row = [&](float size) {
    for (std::uint32_t i = 0; i < s.columns; i += 7)
      x.x[3 * s.columns + i] = kernels::bfloat_of_float(size);
    x.x_buffer.write(x.x);
    run_kernel(args);
    const std::vector<float> all = y.read();
    return std::vector<float>(all.begin(), all.begin() + s.rows);
  };
  EXPECT_EQ(first_row(3e4f), first_row(1));
}

TEST_P(StreamedLinear, the_norm_before_it_and_gathered_rows_are_taken_into_account) {
  const Sizes s{is_cuda() ? 2112u : 32u, 256, 3, 4};
  for (const TensorType type : kTypes) {
    SCOPED_TRACE(type_name(type));
    const Weights w = weights(type, s, 1);
    const Rows x = rows(6, s.columns, 2);
    std::vector<float> squares = random_floats(6 * s.columns / Residual::kPart, 3);
    for (float& square : squares) square = std::abs(square);
    const std::vector<std::int32_t> gather{5, 0, 3, 1};
    const Buffer<float> square_buffer = buffer(squares);
    const Buffer<std::int32_t> gathered = buffer(gather);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
    const Buffer<float> y = buffer(std::vector<float>(std::size_t{s.capacity} * s.rows));
    StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
    args.gather = gathered.data();
    args.squares = square_buffer.data();
    args.epsilon = 0.5f;
    args.y = y.data();
    run_kernel(args);
    const std::vector<float> result = y.read();
    const std::size_t parts = s.columns / Residual::kPart;
    for (std::size_t row = 0; row < s.count; ++row) {
      const auto from = static_cast<std::size_t>(gather[row]);
      double sum = 0;
      for (std::size_t i = 0; i < parts; ++i) sum += squares[from * parts + i];
      const double factor = 1 / std::sqrt(sum / s.columns + 0.5);
      for (std::uint32_t output = 0; output < s.rows; output += stride_of(s)) {
        const Product expected = product(w.row(output), x, from, type);
        ASSERT_NEAR(result[row * s.rows + output], factor * expected.value,
                    factor * expected.tolerance);
      }
    }
  }
}

TEST_P(StreamedLinear, a_gate_and_its_partner_become_one_rounded_row_and_what_that_leaves) {
  for (const TensorType type : kTypes)
    for (const Sizes& s : sizes(is_cuda(), type)) {
      SCOPED_TRACE(testing::Message() << type_name(type) << ", " << s);
      const float scale = 1 / std::sqrt(static_cast<float>(s.columns));
      const Weights gate = weights(type, s, 1, scale);
      const Weights up = weights(type, s, 4, scale);
      const Rows x = rows(s.capacity, s.columns, 2);
      const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
      const Buffer<std::uint16_t> y = buffer(Bits(std::size_t{s.capacity} * s.rows, 0x4567));
      const Buffer<std::uint16_t> rest = buffer(Bits(std::size_t{s.capacity} * s.rows, 0x4567));
      StreamedLinearArgs args = plain(x, count, s.capacity, gate.matrix);
      args.up = up.matrix;
      args.gated = y.data();
      args.gated_rest = s.rows % 32 == 0 ? rest.data() : nullptr;
      args.epilogue = Epilogue::gate;
      run_kernel(args);
      const Bits result = y.read();
      const Bits rests = rest.read();
      for (std::uint32_t output = 0; output < s.rows; output += stride_of(s)) {
        const std::vector<double> gate_row = gate.row(output);
        const std::vector<double> up_row = up.row(output);
        for (std::size_t row = 0; row < s.capacity; ++row) {
          const std::uint16_t bits = result[row * s.rows + output];
          const std::uint16_t left = rests[row * s.rows + output];
          if (row >= s.count || !args.gated_rest) {
            ASSERT_EQ(left, 0x4567);
          }
          if (row >= s.count) {
            ASSERT_EQ(bits, 0x4567);
            continue;
          }
          const Product gates = product(gate_row, x, row, type);
          const Product ups = product(up_row, x, row, type);
          const double silu = gates.value / (1 + std::exp(-gates.value));
          const double expected = silu * ups.value;
          // The slope of silu is at most 1.1.
          const double tolerance =
              1.1 * gates.tolerance * std::abs(ups.value) + std::abs(silu) * ups.tolerance;
          ASSERT_NEAR(number(bits), expected, std::abs(expected) / 200 + 1e-4);
          if (args.gated_rest) {
            ASSERT_NEAR(number(bits) + number(left), expected,
                        std::abs(expected) * 2e-5 + 1e-5 + tolerance);
          }
        }
      }
    }
}

TEST_P(StreamedLinear, what_is_added_to_the_residual_leaves_its_squares_and_its_scaled_rows) {
  for (const TensorType type : kTypes)
    for (const Sizes& s : sizes(is_cuda(), type)) {
      SCOPED_TRACE(testing::Message() << type_name(type) << ", " << s);
      const Weights w = weights(type, s, 1);
      const Rows x = rows(s.capacity, s.columns, 2);
      const std::vector<float> before = random_floats(std::size_t{s.capacity} * s.rows, 5);
      const std::vector<float> norm = random_floats(s.rows, 6);
      const std::size_t parts = s.rows / Residual::kPart;
      const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
      const Buffer<float> values = buffer(before);
      const Buffer<float> norms = buffer(norm);
      const Buffer<std::uint16_t> scaled = buffer(Bits(before.size(), 0x4567));
      const Buffer<std::uint16_t> rest = buffer(Bits(before.size(), 0x4567));
      const Buffer<float> squares = buffer(std::vector<float>(s.capacity * parts, -7));
      StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
      args.residual = {values.data(), scaled.data(), squares.data(), s.rows,
                       s.rows % 32 == 0 ? rest.data() : nullptr};
      args.next_norm = norms.data();
      args.epilogue = Epilogue::add;
      run_kernel(args);
      const std::vector<float> after = values.read();
      const Bits rounded = scaled.read();
      const Bits rests = rest.read();
      const std::vector<float> sums = squares.read();
      for (std::uint32_t part = 0; part<parts; part += s.rows> 1000 ? parts / 3 : 1) {
        std::vector<double> expected_sums(s.capacity);
        for (std::uint32_t i = part * 16; i < part * 16 + 16; ++i) {
          const std::vector<double> row_of_w = w.row(i);
          for (std::size_t row = 0; row < s.capacity; ++row) {
            const std::size_t at = row * s.rows + i;
            if (row >= s.count || !args.residual.rest) {
              ASSERT_EQ(rests[at], 0x4567);
            }
            if (row >= s.count) {
              ASSERT_EQ(after[at], before[at]);
              ASSERT_EQ(rounded[at], 0x4567);
              continue;
            }
            const Product expected = product(row_of_w, x, row, type);
            ASSERT_NEAR(after[at], before[at] + expected.value, expected.tolerance + 1e-6);
            const float wanted = after[at] * norm[i];
            ASSERT_EQ(rounded[at], kernels::bfloat_of_float(wanted));
            if (args.residual.rest) {
              ASSERT_NEAR(number(rounded[at]) + number(rests[at]), wanted, std::abs(wanted) * 1e-5);
            }
            expected_sums[row] += static_cast<double>(after[at]) * after[at];
          }
        }
        for (std::size_t row = 0; row < s.capacity; ++row) {
          const float sum = sums[row * parts + part];
          if (row >= s.count)
            ASSERT_EQ(sum, -7);
          else
            ASSERT_NEAR(sum, expected_sums[row], 1e-5 * expected_sums[row]);
        }
      }
    }
}

TEST(StreamedLinearShapes, whole_tiles_of_some_types_can_be_streamed) {
  const auto can_stream_weights = [](TensorType type, std::uint32_t rows, std::uint32_t columns) {
    return kernels::can_stream_weights({nullptr, type, rows, columns});
  };
  for (const TensorType type : kTypes) {
    EXPECT_TRUE(can_stream_weights(type, 576, 1536)) << type_name(type);
    EXPECT_TRUE(can_stream_weights(type, 16, 96)) << type_name(type);
    EXPECT_FALSE(can_stream_weights(type, 24, 96)) << type_name(type);
  }
  EXPECT_FALSE(can_stream_weights(TensorType::bf16, 16, 48));
  EXPECT_FALSE(can_stream_weights(TensorType::f32, 16, 64));
  EXPECT_FALSE(can_stream_weights(TensorType::q6_k, 16, 256));
}

}  // namespace
}  // namespace attacca::test::streamed_linear_test
