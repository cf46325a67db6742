// streamed_world.hpp: weights, rows and products of streamed linear layers on one device, and the
// same products in doubles.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/streamed_inputs.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::streamed_linear_test {

using kernels::Epilogue;
using kernels::Matrix;
using kernels::StreamedLinearArgs;

inline constexpr TensorType kTypes[] = {TensorType::bf16, TensorType::f16,  TensorType::e4m3,
                                        TensorType::q8_0, TensorType::q4_0, TensorType::q4_1};

class StreamedWorld : public OnEachDevice {
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

}  // namespace attacca::test::streamed_linear_test
