// paged_cells.hpp: keys and values for tests of attention: random numbers that every type
// represents exactly, in shuffled pages. Cells that no token may see are NaN.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/attention/paged_kv.hpp"

namespace attacca::test {

using kernels::KvType;

/// Bits of exponent and mantissa.
struct FloatShape {
  int exponent;
  int mantissa;
  int bias() const { return (1 << (exponent - 1)) - 1; }
};
inline FloatShape shape_of(KvType type) {
  switch (type) {
    case KvType::bf16:
      return {8, 7};
    case KvType::f16:
      return {5, 10};
    case KvType::fp8:
      return {4, 3};
    default:
      return {8, 23};
  }
}
/// The bits of a number in the type. REQUIRES: the type has it exactly, as a normal number or zero.
inline std::uint32_t narrowed(float value, KvType type) {
  const FloatShape shape = shape_of(type);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31 << (shape.exponent + shape.mantissa);
  if (value == 0) return sign;
  const auto exponent =
      static_cast<std::uint32_t>(static_cast<int>(bits >> 23 & 255u) - 127 + shape.bias());
  return sign | exponent << shape.mantissa | (bits & 0x7fffffu) >> (23 - shape.mantissa);
}
inline double widened(std::uint32_t bits, KvType type) {
  const FloatShape shape = shape_of(type);
  const std::uint32_t mantissa = bits & ((1u << shape.mantissa) - 1);
  const int exponent = static_cast<int>(bits >> shape.mantissa & ((1u << shape.exponent) - 1));
  const bool is_fp8 = type == KvType::fp8;  // the one type without infinity and with a single NaN
  if (exponent == (1 << shape.exponent) - 1 && (is_fp8 ? mantissa == 7 : mantissa != 0))
    return std::numeric_limits<double>::quiet_NaN();
  const double sign = bits >> (shape.exponent + shape.mantissa) & 1u ? -1 : 1;
  const double fraction = std::ldexp(mantissa, -shape.mantissa);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - shape.bias())
                               : std::ldexp(1 + fraction, exponent - shape.bias()));
}
/// The largest error of rounding a number near `value` to the type.
inline double rounding_of(double value, KvType type) {
  const double least = std::ldexp(1, 1 - shape_of(type).bias());
  return std::ldexp(std::max(std::abs(value), least), -shape_of(type).mantissa - 1);
}

/// Keys or values of a pool of pages.
class Cells {
 public:
  /// All cells are NaN.
  Cells(std::size_t count, KvType type)
      : type_(type), numbers_(count, std::numeric_limits<float>::quiet_NaN()) {}
  Cells(const std::vector<unsigned char>& bytes, KvType type) : type_(type) {
    const std::size_t width = kernels::kv_element_bytes(type);
    numbers_.resize(bytes.size() / width);
    if (type == KvType::f32) {
      std::memcpy(numbers_.data(), bytes.data(), bytes.size());
      return;
    }
    std::vector<float> known;
    for (std::uint32_t bits = 0; bits < 1u << 8 * width; ++bits)
      known.push_back(static_cast<float>(widened(bits, type)));
    for (std::size_t at = 0; at < numbers_.size(); ++at)
      numbers_[at] = known[width == 1 ? bytes[at]
                                      : static_cast<std::size_t>(bytes[2 * at]) |
                                            static_cast<std::size_t>(bytes[2 * at + 1]) << 8];
  }

  /// A NaN has all bits set.
  std::vector<unsigned char> bytes() const {
    const std::size_t width = kernels::kv_element_bytes(type_);
    std::vector<unsigned char> bytes(numbers_.size() * width, 0xff);
    for (std::size_t at = 0; at < numbers_.size(); ++at) {
      if (!is_number(at)) continue;
      const std::uint32_t bits = narrowed(numbers_[at], type_);
      for (std::size_t i = 0; i < width; ++i)
        bytes[at * width + i] = static_cast<unsigned char>(bits >> 8 * i);
    }
    return bytes;
  }
  float& operator[](std::size_t at) { return numbers_[at]; }
  const float* at(std::size_t at) const { return numbers_.data() + at; }
  bool is_number(std::size_t at) const { return numbers_[at] == numbers_[at]; }
  std::size_t count() const { return numbers_.size(); }

 private:
  KvType type_;
  std::vector<float> numbers_;
};

/// Multiples of an eighth from -15/8 to 15/8.
inline float random_eighth(std::minstd_rand& random) {
  return static_cast<float>(static_cast<int>(random() / 64 % 31) - 15) / 8;
}
inline std::vector<float> random_eighths(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random_eighth(random);
  return values;
}

/// Block tables of slots of these lengths, with shuffled pages and no more of them than needed.
struct Tables {
  std::vector<std::int32_t> pages;  // [slots, stride]; -1: none
  std::uint32_t stride = 0;
  std::uint32_t count = 0;

  Tables(const std::vector<std::uint32_t>& lengths, std::uint32_t page_size) {
    stride = *std::max_element(lengths.begin(), lengths.end()) / page_size + 1;
    pages.assign(lengths.size() * stride, -1);
    for (const std::uint32_t length : lengths) count += length / page_size + 1;
    std::vector<std::int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(stride));
    auto next = order.begin();
    for (std::size_t slot = 0; slot < lengths.size(); ++slot)
      for (std::uint32_t page = 0; page <= lengths[slot] / page_size; ++page)
        pages[slot * stride + page] = *next++;
  }
};

/// A query's attention over some positions, of the values and of their magnitudes, in doubles.
struct Seen {
  std::vector<double> sum;
  std::vector<double> magnitude;
};
template <class Offset>
Seen seen_by(const std::vector<double>& query, double scale, std::uint32_t first,
             std::uint32_t last, const Cells& keys, const Cells& values, const Offset& offset) {
  const std::size_t size = query.size();
  std::vector<double> weights;
  for (std::uint32_t at = first; at <= last; ++at) {
    const float* key = keys.at(offset(at));
    double score = 0;
    for (std::size_t i = 0; i < size; ++i) score += query[i] * key[i];
    weights.push_back(score * scale);
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - max);
  Seen seen{std::vector<double>(size), std::vector<double>(size)};
  for (std::uint32_t at = first; at <= last; ++at) {
    const float* value = values.at(offset(at));
    const double weight = weights[at - first] / total;
    for (std::size_t i = 0; i < size; ++i) {
      seen.sum[i] += weight * value[i];
      seen.magnitude[i] += weight * std::abs(value[i]);
    }
  }
  return seen;
}

}  // namespace attacca::test
