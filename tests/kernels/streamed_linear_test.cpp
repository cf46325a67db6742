// Tests of streamed linear layers against doubles: every type of weights and every epilogue, odd
// sizes, norms, gathered rows, and rows that do not depend on each other. On a GPU also behind
// programmatic edges.
#include "kernels/linear/streamed_linear.hpp"

#include <gtest/gtest.h>

#include <attacca/occupancy.hpp>
#include <cmath>
#include <cstring>
#include <optional>

#include "kernels/streamed_inputs.hpp"
#include "kernels/weights.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::streamed_linear_test {
namespace {

using kernels::Epilogue;
using kernels::Matrix;
using kernels::Residual;
using kernels::StreamedLinearArgs;

constexpr TensorType kTypes[] = {TensorType::bf16, TensorType::e4m3, TensorType::q8_0,
                                 TensorType::q4_0, TensorType::q4_1};

class StreamedLinear : public OnEachDevice {
 protected:
  unsigned processors() const { return is_cuda() ? 132 : 3; }

  void run_kernel(const StreamedLinearArgs& args) {
    Graph graph(device());
    graph.kernel(kernels::streamed_linear(args), kernels::streamed_grid(args, processors()), args);
    run(graph);
  }

  /// Weights on a device, and a copy that the test can read.
  struct Weights {
    std::vector<unsigned char> bytes;
    std::vector<float> scales;
    Buffer<unsigned char> byte_buffer;
    Buffer<float> scale_buffer;
    Matrix matrix;

    std::vector<double> row(std::uint32_t output) const {
      const Matrix here{bytes.data(), matrix.type, matrix.rows, matrix.columns, scales.data()};
      std::vector<double> values(matrix.columns);
      for (std::uint32_t i = 0; i < matrix.columns; ++i)
        values[i] = static_cast<double>(kernels::element(here.type, here.row(output), i)) *
                    (here.type == TensorType::e4m3 ? scales[output] : 1.0f);
      return values;
    }
  };
  Weights weights(TensorType type, const Sizes& s, std::uint32_t seed, float scale = 1) const {
    std::vector<unsigned char> bytes = random_bytes(type, s, seed, scale);
    std::vector<float> scales(s.rows, 1);
    Random random(seed + 1);
    if (type == TensorType::e4m3)
      for (float& one : scales) one = scale / 60 * (0.75f + 0.25f * std::abs(random.number()));
    Buffer<unsigned char> byte_buffer = buffer(bytes);
    Buffer<float> scale_buffer = buffer(scales);
    const Matrix matrix{byte_buffer.data(), type, s.rows, s.columns,
                        type == TensorType::e4m3 ? scale_buffer.data() : nullptr};
    EXPECT_TRUE(kernels::can_stream_weights(matrix));
    return {std::move(bytes), std::move(scales), std::move(byte_buffer), std::move(scale_buffer),
            matrix};
  }

  /// Rows of x: rounded, and the remainder of that rounding.
  struct Rows {
    std::uint32_t columns;
    Bits x;
    Bits rest;
    Buffer<std::uint16_t> x_buffer;
    Buffer<std::uint16_t> rest_buffer;

    double at(std::size_t row, std::size_t column, bool has_rest) const {
      const std::size_t index = row * columns + column;
      return number(x[index]) + (has_rest ? number(rest[index]) : 0);
    }
  };
  Rows rows(std::uint32_t count, std::uint32_t columns, std::uint32_t seed) const {
    Bits x(std::size_t{count} * columns);
    Bits rest(x.size());
    Random random(seed);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float value = random.number();
      x[i] = kernels::bfloat_of_float(value);
      rest[i] = kernels::bfloat_of_float(value - kernels::float_of_bfloat(x[i]));
    }
    Buffer<std::uint16_t> x_buffer = buffer(x);
    Buffer<std::uint16_t> rest_buffer = buffer(rest);
    return {columns, std::move(x), std::move(rest), std::move(x_buffer), std::move(rest_buffer)};
  }

  /// A product that is stored, without norm and epilogue.
  static StreamedLinearArgs plain(const Rows& x, const Buffer<std::uint32_t>& count,
                                  std::uint32_t capacity, const Matrix& w) {
    StreamedLinearArgs args{};
    args.x = x.x_buffer.data();
    args.x_rest = x.rest_buffer.data();
    args.rows = {count.data(), capacity};
    args.w = w;
    args.epilogue = Epilogue::store;
    return args;
  }

  /// A product in doubles, and the error that sums in floats may have. Quantized weights multiply x
  /// in 32512 steps of the largest of 32 columns, so half a step may be missing in each.
  struct Product {
    double value = 0;
    double tolerance = 0;
  };
  static Product product(const std::vector<double>& w, const Rows& x, std::size_t row,
                         TensorType type, bool has_rest) {
    Product result;
    double w_squares = 0;
    double x_squares = 0;
    double half_steps = 0;
    for (std::size_t first = 0; first < w.size(); first += 32) {
      double largest = 0;
      double weights = 0;
      for (std::size_t i = first; i < first + 32; ++i) {
        const double value = x.at(row, i, has_rest);
        result.value += w[i] * value;
        w_squares += w[i] * w[i];
        x_squares += value * value;
        largest = std::max(largest, std::abs(value));
        weights += std::abs(w[i]);
      }
      half_steps += weights * largest / (2 * 32512);
    }
    result.tolerance = 2e-6 * std::sqrt(w_squares * x_squares) + 1e-9;
    if (kernels::is_quantized(type)) result.tolerance += half_steps;
    return result;
  }
  static Product product(const std::vector<double>& w, const Rows& x, std::size_t row,
                         TensorType type) {
    return product(w, x, row, type, kernels::is_quantized(type));
  }
};
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

TEST_P(StreamedLinear, products_behind_programmatic_edges_read_what_came_before) {
  // A chain that adds W x to the same residual again and again. x is the residual's own scaled
  // rows.
  const std::uint32_t size = is_cuda() ? 256 : 64;
  const Sizes s{size, size, 2, 8};
  for (const TensorType type : kTypes) {
    SCOPED_TRACE(type_name(type));
    const Weights w = weights(type, s, 1, 0.02f);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
    const Buffer<float> norms = buffer(std::vector<float>(s.rows, 1));
    const auto result = [&](bool is_programmatic) {
      const Buffer<float> values = buffer(random_floats(std::size_t{s.capacity} * s.rows, 5));
      const Rows scaled = rows(s.capacity, s.rows, 7);
      const Rows x = rows(s.capacity, s.rows, 9);
      const Buffer<float> squares = buffer(std::vector<float>(s.capacity * s.rows / 16, 1));
      StreamedLinearArgs args = plain(scaled, count, s.capacity, w.matrix);
      args.squares = squares.data();
      args.epsilon = 1e-5f;
      args.residual = {values.data(), scaled.x_buffer.data(), squares.data(), s.rows,
                       scaled.rest_buffer.data()};
      args.next_norm = norms.data();
      Graph graph(device());
      std::optional<Node> last;
      for (int at = 0; at < (is_cuda() ? 40 : 10); ++at) {
        StreamedLinearArgs next = args;
        if (at % 2 == 0) {  // x = gated rows of the residual
          next.epilogue = Epilogue::gate;
          next.up = next.w;
          next.gated = x.x_buffer.data();
          next.gated_rest = x.rest_buffer.data();
        } else {
          next.epilogue = Epilogue::add;
          next.x = x.x_buffer.data();
          next.x_rest = x.rest_buffer.data();
          next.squares = nullptr;
        }
        const auto node = graph.kernel(kernels::streamed_linear(next),
                                       kernels::streamed_grid(next, processors()), next);
        if (last && is_programmatic)
          node.after_programmatic(*last);
        else if (last)
          node.after(*last);
        last = node;
      }
      run(graph);
      return values.read();
    };
    const std::vector<float> one_by_one = result(false);
    for (int at = 0; at < (is_cuda() ? 5 : 1); ++at) EXPECT_EQ(result(true), one_by_one);
    for (const float value : one_by_one) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_P(StreamedLinear,
       a_processor_has_no_room_for_two_blocks_of_a_product_unless_every_other_adds) {
  if (!is_cuda()) GTEST_SKIP() << "of a GPU's processors";
  for (const TensorType type : kTypes)
    for (const std::uint32_t capacity : {8u, 16u}) {
      StreamedLinearArgs args{};
      args.rows.capacity = capacity;
      args.w = {nullptr, type, 4096, 4096};
      const auto room_for = [&](Epilogue end, kernels::CoResident co_resident) {
        args.epilogue = end;
        const Grid grid = kernels::streamed_grid(args, processors(), co_resident);
        return occupancy(device(), kernels::streamed_linear(args), grid)
            .residency.blocks_per_processor;
      };
      SCOPED_TRACE(type_name(type));
      for (const Epilogue end : {Epilogue::store, Epilogue::gate, Epilogue::add})
        EXPECT_EQ(room_for(end, kernels::CoResident::none), 1u);
      EXPECT_EQ(room_for(Epilogue::store, kernels::CoResident::next), 1u);
      EXPECT_EQ(room_for(Epilogue::gate, kernels::CoResident::next), 1u);
      EXPECT_EQ(room_for(Epilogue::add, kernels::CoResident::next), 2u);
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

TEST_P(StreamedLinear, no_stage_is_filled_again_while_other_kernels_keep_its_readers_waiting) {
  // A load from shared memory can wait behind loads of a kernel that started early, for longer than
  // TMA takes to fill a stage that was released too soon.
  const Sizes s{is_cuda() ? 6144u : 32u, is_cuda() ? 4096u : 64u, 8, 8};
  constexpr int kPairs = 4;
  const Weights w = weights(TensorType::bf16, s, 1);
  const Rows x = rows(s.capacity, s.columns, 2);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
  const Grid others{Dim3{3 * processors()}, Dim3{128}};
  const Buffer<std::uint32_t> much(device(), is_cuda() ? 16u << 20 : 64);
  const Buffer<std::uint32_t> sums(device(), std::size_t{others.blocks.x} * others.threads.x);
  stream().fill(much.data(), 1, much.bytes());
  const auto products_into = [&](const Buffer<float>& y) {
    StreamedLinearArgs args = plain(x, count, s.capacity, w.matrix);
    args.y = y.data();
    return args;
  };
  const std::vector<float> nothing(std::size_t{s.capacity} * s.rows);
  const Buffer<float> alone = buffer(nothing);
  run_kernel(products_into(alone));

  std::vector<Buffer<float>> results;
  for (int i = 0; i < 2 * kPairs; ++i) results.push_back(buffer(nothing));
  // Blocks ask for no more shared memory than they need, so two of them fit on an SM.
  StreamedLinearArgs added = products_into(alone);
  added.epilogue = Epilogue::add;
  const Grid crowded = kernels::streamed_grid(added, processors());
  Graph graph(device());
  std::optional<Node> last;
  for (int i = 0; i < 2 * kPairs; ++i) {
    const StreamedLinearArgs args = products_into(results[static_cast<std::size_t>(i)]);
    auto node = graph.kernel(kernels::streamed_linear(args), crowded, args);
    if (i % 2 != 0)
      node.after_programmatic(*last);
    else if (last)
      node.after(*last);
    last = node;
    if (i % 2 != 0)
      last = graph
                 .kernel(crowd, others,
                         {.x = much.data(),
                          .count = static_cast<unsigned>(much.size()),
                          .sums = sums.data()})
                 .after_programmatic(*last);
  }
  Exec exec = graph.instantiate();
  for (int launch_number = 0; launch_number < 10; ++launch_number) {
    run(exec);
    for (const Buffer<float>& result : results) ASSERT_EQ(result.read(), alone.read());
  }
}

}  // namespace
}  // namespace attacca::test::streamed_linear_test
