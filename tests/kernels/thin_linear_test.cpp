// Tests of the streamed bf16 products against doubles: every ending, odd sizes, norms, gathered
// rows, and rows that do not depend on each other. On a GPU also behind programmatic edges.
#include "kernels/thin_linear.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/embed.hpp"
#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::Matrix;
using kernels::Residual;
using kernels::TensorType;
using kernels::ThinEnd;
using kernels::ThinLinearArgs;

using Bits = std::vector<std::uint16_t>;

/// From -1.7 to 1.7 times `scale`, which is their size on average. Millions of them, so a simple
/// generator.
Bits random_bfloats(std::size_t count, std::uint32_t seed, float scale = 1) {
  Bits bits(count);
  for (std::uint16_t& bit : bits) {
    seed = seed * 1664525u + 1013904223u;
    const float uniform = static_cast<float>(static_cast<std::int32_t>(seed)) * 0x1p-31f;
    bit = kernels::bfloat_of_float(1.7320508f * scale * uniform);
  }
  return bits;
}
double number(std::uint16_t bits) { return kernels::float_of_bfloat(bits); }

struct Sizes {
  std::uint32_t rows;
  std::uint32_t columns;
  std::uint32_t count;
  std::uint32_t capacity;
};

class ThinLinear : public OnEachDevice {
 protected:
  unsigned processors() const { return is_cuda() ? 132 : 3; }

  void run_kernel(const ThinLinearArgs& args) {
    Graph graph(device());
    graph.kernel(kernels::thin_linear(args), kernels::thin_grid(args, processors()), args);
    run(graph);
  }

  Matrix matrix(const Buffer<std::uint16_t>& weights, const Sizes& s) const {
    return {weights.data(), TensorType::bf16, s.rows, s.columns};
  }
  /// A product that is stored, with nothing around it.
  static ThinLinearArgs plain(const std::uint16_t* x, const Buffer<std::uint32_t>& count,
                              std::uint32_t capacity, const Matrix& w) {
    ThinLinearArgs args{};
    args.x = x;
    args.rows = {count.data(), capacity};
    args.w = w;
    args.end = ThinEnd::store;
    return args;
  }
  static double product(const Bits& w, const Bits& x, std::uint32_t columns, std::size_t output,
                        std::size_t row) {
    double sum = 0;
    for (std::size_t i = 0; i < columns; ++i)
      sum += number(w[output * columns + i]) * number(x[row * columns + i]);
    return sum;
  }
  /// Sums of many products in floats.
  static double tolerance(const Sizes& s) { return 2e-6 * s.columns; }
};
ATTACCA_ON_EACH_DEVICE(ThinLinear);

std::vector<Sizes> sizes(bool is_cuda) {
  std::vector<Sizes> all{{16, 32, 1, 1},    {48, 64, 3, 5},   {16, 576, 8, 8}, {64, 96, 9, 12},
                         {32, 160, 16, 16}, {32, 64, 37, 40}, {64, 96, 0, 3},  {32, 32, 33, 48}};
  if (is_cuda) {  // several tiles for each block, and whole models' shapes
    all.push_back({4224, 512, 2, 8});
    all.push_back({4224, 4096, 0, 8});
    all.push_back({6144, 4096, 1, 1});
    all.push_back({28672, 512, 8, 8});
    all.push_back({4096, 14336, 5, 8});
    all.push_back({4096, 4096, 13, 16});
    all.push_back({4096, 2048, 64, 64});
    all.push_back({10240, 1024, 50, 64});
    all.push_back({2048, 8192, 33, 40});
    all.push_back({2048, 512, 200, 256});
  }
  return all;
}

TEST_P(ThinLinear, products_are_stored_with_their_bias_and_no_other_row_is_written) {
  for (const Sizes& s : sizes(is_cuda())) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.columns << ", " << s.count);
    const Bits w = random_bfloats(std::size_t{s.rows} * s.columns, 1);
    const Bits x = random_bfloats(std::size_t{s.capacity} * s.columns, 2);
    const std::vector<float> bias = random_floats(s.rows, 3);
    const Buffer<std::uint16_t> weights = buffer(w);
    const Buffer<std::uint16_t> rows = buffer(x);
    const Buffer<float> biases = buffer(bias);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
    const Buffer<float> y = buffer(std::vector<float>(std::size_t{s.capacity} * s.rows, -7));
    ThinLinearArgs args = plain(rows.data(), count, s.capacity, matrix(weights, s));
    args.bias = biases.data();
    args.y = y.data();
    run_kernel(args);
    const std::vector<float> result = y.read();
    // All of a small one, some of a large one.
    const std::size_t stride = s.rows > 1000 ? s.rows / 40 + 1 : 1;
    for (std::size_t row = 0; row < s.capacity; ++row)
      for (std::size_t output = 0; output < s.rows; output += stride) {
        const float value = result[row * s.rows + output];
        if (row >= s.count)
          ASSERT_EQ(value, -7) << row << ", " << output;
        else
          ASSERT_NEAR(value, product(w, x, s.columns, output, row) + bias[output], tolerance(s))
              << row << ", " << output;
      }
  }
}

TEST_P(ThinLinear, a_row_has_the_same_bits_whatever_other_rows_there_are) {
  const Sizes s{is_cuda() ? 4096u : 64u, 1024, 8, 8};
  const Bits w = random_bfloats(std::size_t{s.rows} * s.columns, 1);
  const Buffer<std::uint16_t> weights = buffer(w);
  const Buffer<std::uint16_t> rows = buffer(random_bfloats(8 * s.columns, 2));
  const auto result = [&](std::uint32_t first, std::uint32_t count) {
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<float> y = buffer(std::vector<float>(std::size_t{8} * s.rows));
    ThinLinearArgs args = plain(rows.data() + first * s.columns, counts, 8, matrix(weights, s));
    args.y = y.data();
    run_kernel(args);
    std::vector<float> all = y.read();
    return std::vector<float>(all.begin(), all.begin() + s.rows);
  };
  for (std::uint32_t row = 0; row < 8; ++row) EXPECT_EQ(result(row, 8 - row), result(row, 1));
}

TEST_P(ThinLinear, the_norm_before_it_and_gathered_rows_are_taken_into_account) {
  const Sizes s{is_cuda() ? 2112u : 32u, 256, 3, 4};
  const Bits w = random_bfloats(std::size_t{s.rows} * s.columns, 1);
  const Bits x = random_bfloats(6 * s.columns, 2);
  std::vector<float> squares = random_floats(6 * s.columns / Residual::kPart, 3);
  for (float& square : squares) square = std::abs(square);
  const std::vector<std::int32_t> gather{5, 0, 3, 1};
  const Buffer<std::uint16_t> weights = buffer(w);
  const Buffer<std::uint16_t> rows = buffer(x);
  const Buffer<float> square_buffer = buffer(squares);
  const Buffer<std::int32_t> gathered = buffer(gather);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
  const Buffer<float> y = buffer(std::vector<float>(std::size_t{s.capacity} * s.rows));
  ThinLinearArgs args = plain(rows.data(), count, s.capacity, matrix(weights, s));
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
    for (std::size_t output = 0; output < s.rows; ++output)
      ASSERT_NEAR(result[row * s.rows + output], factor * product(w, x, s.columns, output, from),
                  tolerance(s));
  }
}

TEST_P(ThinLinear, a_gate_and_its_partner_become_one_rounded_row) {
  for (const Sizes& s : sizes(is_cuda())) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.columns << ", " << s.count);
    const float scale = 1 / std::sqrt(static_cast<float>(s.columns));
    const Bits gate = random_bfloats(std::size_t{s.rows} * s.columns, 1, scale);
    const Bits up = random_bfloats(std::size_t{s.rows} * s.columns, 4, scale);
    const Bits x = random_bfloats(std::size_t{s.capacity} * s.columns, 2);
    const Buffer<std::uint16_t> gates = buffer(gate);
    const Buffer<std::uint16_t> ups = buffer(up);
    const Buffer<std::uint16_t> rows = buffer(x);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
    const Buffer<std::uint16_t> y = buffer(Bits(std::size_t{s.capacity} * s.rows, 0x4567));
    ThinLinearArgs args = plain(rows.data(), count, s.capacity, matrix(gates, s));
    args.up = matrix(ups, s);
    args.gated = y.data();
    args.end = ThinEnd::gate;
    run_kernel(args);
    const Bits result = y.read();
    const std::size_t stride = s.rows > 1000 ? s.rows / 40 + 1 : 1;
    for (std::size_t row = 0; row < s.capacity; ++row)
      for (std::size_t output = 0; output < s.rows; output += stride) {
        const std::uint16_t bits = result[row * s.rows + output];
        if (row >= s.count) {
          ASSERT_EQ(bits, 0x4567);
          continue;
        }
        const double g = product(gate, x, s.columns, output, row);
        const double expected = g / (1 + std::exp(-g)) * product(up, x, s.columns, output, row);
        ASSERT_NEAR(number(bits), expected, std::abs(expected) / 200 + 1e-4);
      }
  }
}

TEST_P(ThinLinear, what_is_added_to_the_residual_leaves_its_squares_and_its_scaled_rows) {
  for (const Sizes& s : sizes(is_cuda())) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.columns << ", " << s.count);
    const Bits w = random_bfloats(std::size_t{s.rows} * s.columns, 1);
    const Bits x = random_bfloats(std::size_t{s.capacity} * s.columns, 2);
    const std::vector<float> before = random_floats(std::size_t{s.capacity} * s.rows, 5);
    const std::vector<float> norm = random_floats(s.rows, 6);
    const std::size_t parts = s.rows / Residual::kPart;
    const Buffer<std::uint16_t> weights = buffer(w);
    const Buffer<std::uint16_t> rows = buffer(x);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
    const Buffer<float> values = buffer(before);
    const Buffer<float> norms = buffer(norm);
    const Buffer<std::uint16_t> scaled = buffer(Bits(before.size(), 0x4567));
    const Buffer<float> squares = buffer(std::vector<float>(s.capacity * parts, -7));
    ThinLinearArgs args = plain(rows.data(), count, s.capacity, matrix(weights, s));
    args.residual = {values.data(), scaled.data(), squares.data(), s.rows};
    args.next_norm = norms.data();
    args.end = ThinEnd::add;
    run_kernel(args);
    const std::vector<float> after = values.read();
    const Bits rounded = scaled.read();
    const std::vector<float> sums = squares.read();
    for (std::size_t row = 0; row < s.capacity; ++row)
      for (std::size_t part = 0; part<parts; part += s.rows> 1000 ? 7 : 1) {
        double expected_sum = 0;
        for (std::size_t i = part * 16; i < part * 16 + 16; ++i) {
          const std::size_t at = row * s.rows + i;
          if (row >= s.count) {
            ASSERT_EQ(after[at], before[at]);
            ASSERT_EQ(rounded[at], 0x4567);
            continue;
          }
          ASSERT_NEAR(after[at], before[at] + product(w, x, s.columns, i, row), tolerance(s));
          ASSERT_EQ(rounded[at], kernels::bfloat_of_float(after[at] * norm[i]));
          expected_sum += static_cast<double>(after[at]) * after[at];
        }
        if (row >= s.count)
          ASSERT_EQ(sums[row * parts + part], -7);
        else
          ASSERT_NEAR(sums[row * parts + part], expected_sum, 1e-5 * expected_sum);
      }
  }
}

TEST_P(ThinLinear, products_behind_programmatic_edges_read_what_came_before) {
  // A chain that adds W x to the same residual again and again, x being its own scaled rows.
  const Sizes s{256, 256, 2, 8};
  const Bits w = random_bfloats(std::size_t{s.rows} * s.columns, 1, 0.02f);
  const Buffer<std::uint16_t> weights = buffer(w);
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({s.count});
  const Buffer<float> norms = buffer(std::vector<float>(s.rows, 1));
  const auto result = [&](bool is_programmatic) {
    const Buffer<float> values = buffer(random_floats(std::size_t{s.capacity} * s.rows, 5));
    const Buffer<std::uint16_t> scaled = buffer(random_bfloats(values.size(), 7));
    const Buffer<float> squares = buffer(std::vector<float>(s.capacity * s.rows / 16, 1));
    ThinLinearArgs args = plain(scaled.data(), count, s.capacity, matrix(weights, s));
    args.squares = squares.data();
    args.epsilon = 1e-5f;
    args.residual = {values.data(), scaled.data(), squares.data(), s.rows};
    args.next_norm = norms.data();
    // Rows are stored first and added after: the kernel that adds reads another buffer than it
    // writes.
    const Buffer<float> y = buffer(std::vector<float>(values.size()));
    const Buffer<std::uint16_t> x = buffer(random_bfloats(values.size(), 9));
    Graph graph(device());
    std::optional<Node> last;
    for (int at = 0; at < 40; ++at) {
      ThinLinearArgs next = args;
      if (at % 2 == 0) {  // x = gated rows of the residual
        next.end = ThinEnd::gate;
        next.up = next.w;
        next.gated = x.data();
      } else {
        next.end = ThinEnd::add;
        next.x = x.data();
        next.squares = nullptr;
      }
      const auto node =
          graph.kernel(kernels::thin_linear(next), kernels::thin_grid(next, processors()), next);
      if (last && is_programmatic)
        node.after_programmatic(*last);
      else if (last)
        node.after(*last);
      last = node;
    }
    run(graph);
    return values.read();
  };
  const std::vector<float> plain = result(false);
  for (int at = 0; at < 5; ++at) EXPECT_EQ(result(true), plain);
  for (const float value : plain) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(ThinLinear, embedding_into_a_residual_leaves_the_same_things_beside_it) {
  const std::uint32_t columns = 64;
  const auto bytes = random_weights(TensorType::bf16, 9, columns, 3);
  const Matrix here{bytes.data(), TensorType::bf16, 9, columns};
  const Buffer<unsigned char> table = buffer(bytes);
  const Buffer<std::int32_t> tokens = buffer<std::int32_t>({8, 0, 3});
  const Buffer<std::uint32_t> count = buffer<std::uint32_t>({2});
  const std::vector<float> norm = random_floats(columns, 4);
  const Buffer<float> norms = buffer(norm);
  const Buffer<float> values = buffer(std::vector<float>(3 * columns, -7));
  const Buffer<std::uint16_t> scaled = buffer(Bits(3 * columns, 0x4567));
  const Buffer<float> squares = buffer(std::vector<float>(3 * columns / 16, -7));
  const kernels::EmbedResidualArgs args{tokens.data(),
                                        {count.data(), 3},
                                        {table.data(), TensorType::bf16, 9, columns},
                                        {values.data(), scaled.data(), squares.data(), columns},
                                        norms.data()};
  Graph graph(device());
  graph.kernel(kernels::embed_residual(), kernels::grid_of(args, is_cuda()), args);
  run(graph);
  const auto after = values.read();
  const auto sums = squares.read();
  for (std::uint32_t i = 0; i < columns; ++i) {
    const float expected = kernels::element(TensorType::bf16, here.row(8), i);
    EXPECT_EQ(after[i], expected);
    EXPECT_EQ(scaled.read()[i], kernels::bfloat_of_float(expected * norm[i]));
    EXPECT_EQ(after[2 * columns + i], -7);
  }
  double sum = 0;
  for (std::uint32_t i = 16; i < 32; ++i) sum += static_cast<double>(after[i]) * after[i];
  EXPECT_NEAR(sums[1], sum, 1e-5 * sum);
}

}  // namespace
}  // namespace attacca::test
