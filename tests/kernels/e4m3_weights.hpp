// e4m3_weights.hpp: random e4m3 weights with a scale for each row, for tests of products.
#pragma once

#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "kernels/product_world.hpp"

namespace attacca::test {

/// As they are and in bf16.
class E4m3Weights {
 public:
  enum class Scales { any, powers_of_two };
  E4m3Weights(const Device& device, const ProductSizes& s, unsigned seed, Scales kind)
      : sizes_(s), bytes_(std::size_t{s.rows} * s.columns) {
    std::mt19937 random(seed);
    // All but NaN. Their root mean square is about 128.
    for (unsigned char& byte : bytes_) {
      const unsigned any = random() % 254;
      byte = static_cast<unsigned char>(any + any / 127);
    }
    const float first = std::exp2(-7 - std::ceil(std::log2(static_cast<float>(s.columns)) / 2));
    for (std::uint32_t row = 0; row < s.rows; ++row)
      scales_.push_back(kind == Scales::any ? first * (0.6f + static_cast<float>(row % 7) / 9)
                                            : first / static_cast<float>(1 << row % 3));
    packed_.emplace(device, bytes_);
    on_device_.emplace(device, scales_);
  }
  kernels::Matrix packed() const {
    return {packed_->data(), kernels::TensorType::e4m3, sizes_.rows, sizes_.columns,
            on_device_->data()};
  }
  /// REQUIRES: powers of two, with which bf16 has the same numbers.
  Buffer<std::uint16_t> in_bf16(const Device& device) const {
    Bits bits;
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      bits.push_back(kernels::bfloat_of_float(kernels::float_of_e4m3(bytes_[i]) *
                                              scales_[i / sizes_.columns]));
    return {device, bits};
  }

 private:
  ProductSizes sizes_;
  std::vector<unsigned char> bytes_;
  std::vector<float> scales_;
  std::optional<Buffer<unsigned char>> packed_;
  std::optional<Buffer<float>> on_device_;
};

}  // namespace attacca::test
