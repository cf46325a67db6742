// token_key.cuh: the numbers that the CUDA sampler compares and adds up: logits with their tokens
// as integer keys, and masses (see sampling.hpp) as floats.
#pragma once

#include <cstdint>

#include "kernels/sample/sampling.hpp"

namespace attacca::kernels {

/// A logit and its token in one integer. A higher key comes earlier in the order of comes_before.
struct TokenKey {
  /// Maps floats to integers of the same order. REQUIRES: not -0, not NaN.
  __device__ static std::uint32_t ordered(float value) {
    const std::uint32_t bits = __float_as_uint(value);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
  }
  __device__ static float from_ordered(std::uint32_t key) {
    return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key);
  }
  __device__ static std::uint64_t of(float logit, std::uint32_t token) {
    return static_cast<std::uint64_t>(ordered(logit)) << 32 | std::uint32_t{~token};
  }
  __device__ static float logit(std::uint64_t key) {
    return from_ordered(static_cast<std::uint32_t>(key >> 32));
  }
  __device__ static std::uint32_t token(std::uint64_t key) {
    return ~static_cast<std::uint32_t>(key);
  }
};

/// A mass is an integer of at most 24 significant bits: a float holds it.
struct FloatMass {
  /// 2^23. Adding it moves the whole part of a float to its lowest bits; a conversion is slower.
  static constexpr float kShift = 8388608.0f;

  /// mass_of(logit, max, inverse) without slow 64-bit conversions.
  __device__ static float of(float logit, float max, float inverse) {
    if (logit == max) return static_cast<float>(kFullMass);
    const float distance = (max - logit) * inverse;
    if (!(distance < MassTerms::kFarthest)) return 0;
    const float shifted = __fadd_rz(distance * MassTerms::kLog2E, kShift);
    const std::uint32_t octaves = __float_as_uint(shifted) - __float_as_uint(kShift);
    const float x = fmaf(distance, MassTerms::kLog2E, -(shifted - kShift));
    float power = fmaf(MassTerms::kPower5, x, MassTerms::kPower4);
    power = fmaf(power, x, MassTerms::kPower3);
    power = fmaf(power, x, MassTerms::kPower2);
    power = fmaf(power, x, MassTerms::kPower1);
    power = fmaf(power, x, MassTerms::kPower0);
    return truncf(truncf(power) * __uint_as_float((127 + 16 - octaves) << 23));
  }
  /// The sums of the low 20 bits and of the rest; 32 bits hold each for a chunk.
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __device__ void add(float mass) {
    const float upper = __fmaf_rz(mass, 0x1p-20f, kShift);
    const float lower = __fadd_rn(__fmaf_rn(upper - kShift, -0x1p20f, mass), kShift);
    high += __float_as_uint(upper) - __float_as_uint(kShift);
    low += __float_as_uint(lower) - __float_as_uint(kShift);
  }
  __device__ std::uint64_t whole() const { return (static_cast<std::uint64_t>(high) << 20) + low; }
  /// The sum over all lanes, in every lane.
  __device__ FloatMass over_warp() const {
    FloatMass sum;
    sum.low = __reduce_add_sync(~0u, low);
    sum.high = __reduce_add_sync(~0u, high);
    return sum;
  }
};

}  // namespace attacca::kernels
