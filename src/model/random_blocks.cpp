// random_blocks.cpp: makes random weights. One 64-bit random word makes 4 elements of a type
// without blocks, each drawn from a table, or 8 bytes of a block.
#include "model/random_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/quantization.hpp"
#include "kernels/random_fill.hpp"

namespace attacca::model {

using kernels::TensorType;

namespace {

constexpr std::uint64_t kValues = 4096;
constexpr std::uint64_t kMostGroupBytes = 4 * RandomBlocks::kGroup;

/// The standard deviation of `count` successive integers that are equally probable.
double deviation_of(double count) { return std::sqrt((count * count - 1) / 12); }

/// The root mean square of the scales within blocks of 256 elements, which are 32 to 63.
constexpr double kPartScale = 48.39;

struct Scales {
  double scale;
  double offset;
};
/// The scale that gives random bytes a deviation of 1, and the offset that makes their mean 0.
Scales scales_of(TensorType type) {
  switch (type) {
    case TensorType::q8_0:
      return {1 / deviation_of(256), 0};
    case TensorType::q4_0:
      return {1 / deviation_of(16), 0};
    case TensorType::q4_1:
      return {1 / deviation_of(16), -7.5 / deviation_of(16)};
    case TensorType::q4_k:
      return {1 / deviation_of(16) / kPartScale, 7.5 / deviation_of(16) / kPartScale};
    case TensorType::q5_k:
      return {1 / deviation_of(32) / kPartScale, 15.5 / deviation_of(32) / kPartScale};
    case TensorType::q6_k:
      return {1 / deviation_of(64) / kPartScale, 0};
    default:
      return {0, 0};
  }
}

void put_half(std::uint16_t half, std::byte* to) { std::memcpy(to, &half, sizeof half); }

}  // namespace

RandomBlocks::RandomBlocks(TensorType type, std::uint64_t seed, float deviation)
    : type_(type), seed_(seed), group_bytes_(kernels::row_bytes(type, kGroup)) {
  const Scales scales = scales_of(type);
  scale_ = kernels::half_of_float(static_cast<float>(scales.scale) * deviation);
  offset_ = kernels::half_of_float(static_cast<float>(scales.offset) * deviation);
  if (kernels::is_quantized(type)) return;
  const std::uint64_t size = kernels::block_shape(type).bytes;
  values_.resize(kValues * size);
  for (std::uint64_t at = 0; at < kValues; ++at) {
    const float value = kernels::random_number(seed, at, deviation);
    std::byte* const to = values_.data() + at * size;
    if (type == TensorType::f32)
      std::memcpy(to, &value, sizeof value);
    else
      put_half(
          type == TensorType::f16 ? kernels::half_of_float(value) : kernels::bfloat_of_float(value),
          to);
  }
}

void RandomBlocks::fill(std::uint64_t first, std::span<std::byte> to) const {
  for (; to.size() >= group_bytes_; to = to.subspan(group_bytes_)) fill_group(first++, to.data());
  if (to.empty()) return;
  std::byte last[kMostGroupBytes];
  fill_group(first, last);
  std::memcpy(to.data(), last, to.size());
}

void RandomBlocks::fill_group(std::uint64_t group, std::byte* to) const {
  std::uint64_t state = kernels::mixed(kernels::mixed(seed_) + group);
  const auto next = [&] { return kernels::mixed(state += 0x9e3779b97f4a7c15u); };
  if (!values_.empty()) {
    const auto draw = [&](auto element) {
      for (std::uint64_t at = 0; at < kGroup; at += 4) {
        const std::uint64_t bits = next();
        for (std::uint64_t part = 0; part < 4; ++part) {
          const std::uint64_t value = bits >> (16 * part) & (kValues - 1);
          std::memcpy(&element, values_.data() + value * sizeof element, sizeof element);
          std::memcpy(to + (at + part) * sizeof element, &element, sizeof element);
        }
      }
    };
    return type_ == TensorType::f32 ? draw(std::uint32_t{}) : draw(std::uint16_t{});
  }
  for (std::uint64_t at = 0; at < group_bytes_; at += sizeof(std::uint64_t)) {
    const std::uint64_t bits = next();
    std::memcpy(to + at, &bits, std::min<std::uint64_t>(sizeof bits, group_bytes_ - at));
  }
  const std::uint64_t block = kernels::block_shape(type_).bytes;
  for (std::uint64_t at = 0; at < group_bytes_; at += block) set_scales(next(), to + at);
}

/// A type without offsets has one more value below zero than above. Scales of random sign make the
/// mean 0.
void RandomBlocks::set_scales(std::uint64_t bits, std::byte* block) const {
  const auto sign = static_cast<std::uint16_t>(bits & 1u ? 0x8000u : 0u);
  switch (type_) {
    case TensorType::q4_1:
      put_half(scale_, block);
      put_half(offset_, block + 2);
      return;
    case TensorType::q4_k:
    case TensorType::q5_k: {
      put_half(scale_, block);
      put_half(offset_, block + 2);
      // Scale and offset of a part are the same 6-bit number, 32 to 63. The last four parts store
      // their upper two bits, 2 or 3, in the bytes of the first four.
      for (unsigned part = 0; part < 4; ++part) {
        const auto random = static_cast<unsigned>(bits >> (10 * part + 1));
        const unsigned first = 32 + (random & 31u);
        const unsigned second = 32 + (random >> 5 & 31u);
        const auto packed = static_cast<std::byte>(first | second >> 4 << 6);
        block[4 + part] = packed;
        block[8 + part] = packed;
        block[12 + part] = static_cast<std::byte>((second & 15u) | (second & 15u) << 4);
      }
      return;
    }
    case TensorType::q6_k:
      for (unsigned part = 0; part < 16; ++part) {
        const int size = 32 + static_cast<int>(block[192 + part] & std::byte{31});
        block[192 + part] = static_cast<std::byte>(bits >> part & 1u ? -size : size);
      }
      put_half(scale_, block + 208);
      return;
    default:
      put_half(static_cast<std::uint16_t>(scale_ | sign), block);
  }
}

}  // namespace attacca::model
