// product_world.hpp: the inputs and outputs of a product of bf16 or f16 weights on one device, for
// tests of kernels that multiply many rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/linear/streamed_linear.hpp"
#include "kernels/quantization.hpp"
#include "kernels/random_fill.hpp"
#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {

using Bits = std::vector<std::uint16_t>;

inline constexpr float kUntouched = -7;

/// The number of distinct rows of x, which are repeated. The reference multiplies no more, and a
/// row's result must not depend on its place. No two rows at the same place in a tile's groups of
/// eight are alike.
inline constexpr std::uint32_t kDistinct = 17;

inline Bits random_bits(std::size_t count, std::uint32_t seed) {
  Bits bits;
  for (const float value : random_floats(count, seed))
    bits.push_back(kernels::bfloat_of_float(value));
  return bits;
}

/// The distinct rows repeated until there are `rows`.
template <class T>
std::vector<T> repeated(const std::vector<T>& distinct, std::uint32_t rows) {
  const std::size_t width = distinct.size() / kDistinct;
  std::vector<T> all;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const auto from = distinct.begin() + static_cast<std::ptrdiff_t>(row % kDistinct * width);
    all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(width));
  }
  return all;
}

struct ProductSizes {
  std::uint32_t rows;
  std::uint32_t columns;
  std::uint32_t count;
  std::uint32_t capacity;
};
inline std::ostream& operator<<(std::ostream& out, const ProductSizes& s) {
  return out << s.rows << " x " << s.columns << ", " << s.count << " of " << s.capacity;
}

/// The inputs and outputs of a product on one device.
struct ProductWorld {
  ProductWorld(const Device& device, const ProductSizes& s, kernels::Epilogue end,
               kernels::TensorType type = kernels::TensorType::bf16)
      : sizes(s),
        x(device, repeated(random_bits(kDistinct * s.columns, 1), s.capacity)),
        w(random_weights(device, s, type, 2)),
        up(random_weights(device, s, type, 3)),
        squares(device, repeated(squares_of(s), s.capacity)),
        floats(device, random_floats(s.rows, 4)),
        count(device, std::vector<std::uint32_t>{s.count}),
        y(device, std::vector<float>(std::size_t{s.capacity} * s.rows, kUntouched)),
        rounded(device, Bits(std::size_t{s.capacity} * s.rows, 0x4567)),
        sums(device,
             std::vector<float>(s.capacity * s.rows / kernels::Residual::kPart, kUntouched)) {
    product.x = x.data();
    product.rows = {count.data(), s.capacity};
    product.w = {w.data(), type, s.rows, s.columns};
    product.up = {up.data(), type, s.rows, s.columns};
    product.epilogue = end;
    product.bias = floats.data();
    product.next_norm = floats.data();
    product.y = y.data();
    product.gated = rounded.data();
    product.residual = {y.data(), rounded.data(), sums.data(), s.rows};
    product.epsilon = 0.5f;
    if (end != kernels::Epilogue::add) product.squares = squares.data();
  }
  /// Makes them on the device, because they are many.
  static Buffer<std::uint16_t> random_weights(const Device& device, const ProductSizes& s,
                                              kernels::TensorType type, std::uint64_t seed) {
    Buffer<std::uint16_t> weights(device, std::size_t{s.rows} * s.columns);
    const kernels::RandomFillArgs args{weights.data(), type, weights.size(), seed,
                                       1 / std::sqrt(static_cast<float>(s.columns))};
    const Stream stream(device);
    stream.kernel(kernels::random_fill(), grid_of(args, device.is_cuda()), args);
    stream.synchronize();
    return weights;
  }
  static std::vector<float> squares_of(const ProductSizes& s) {
    const std::uint32_t parts = s.columns / kernels::Residual::kPart;
    std::vector<float> squares(kDistinct * parts);
    for (std::size_t i = 0; i < squares.size(); ++i)
      squares[i] = 2 + static_cast<float>(i / parts) * 0.25f;
    return squares;
  }

  ProductSizes sizes;
  Buffer<std::uint16_t> x, w, up;
  Buffer<float> squares, floats;
  Buffer<std::uint32_t> count;
  Buffer<float> y;
  Buffer<std::uint16_t> rounded;
  Buffer<float> sums;
  kernels::StreamedLinearArgs product{};
};

}  // namespace attacca::test
