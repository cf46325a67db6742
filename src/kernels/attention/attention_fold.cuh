// attention_fold.cuh: the order of attention with the same bits, and the rules by which its sums
// are rescaled and folded. The same parts in the same order give the same bits, wherever they were
// computed.
//
// Positions are cut into chains of kChain. In a chain the tensor cores take 16 positions after
// another, and weights are rounded to 16 bits; the total is the sum of one more dimension, whose
// values are all 1. A partial result is a base in units of log2, and a total and sums of weights
// relative to it. A chain starts from nothing. Chains are folded into their split from left to
// right, and splits into the result.
#pragma once

#include "kernels/attention/attention_ptx.cuh"

namespace attacca::kernels::attending {

inline constexpr std::uint32_t kChain = 32;

/// A base is a multiple of twice the reach, and no score is above it by more than the reach. So
/// scores of any usual size have the base 0, parts are folded by mere additions, and to rescale is
/// exact. In f16 a weight may be 256 at most, in bf16 2^32.
template <bool kIsBfloat>
inline constexpr float kReach = kIsBfloat ? 32 : 8;

/// The base once a score `most` was seen. Both may be minus infinity.
template <bool kIsBfloat>
__device__ inline float next_base(float base, float most) {
  constexpr float kEach = 2 * kReach<kIsBfloat>;
  return most <= base + kReach<kIsBfloat> ? base : kEach * rintf(most * (1 / kEach));
}
/// What is subtracted from scores.
__device__ inline float finite_base(float base) { return base == -INFINITY ? 0 : base; }

/// Two numbers 1, as the tensor cores take them.
template <bool kIsBfloat>
inline constexpr std::uint32_t kOnes = kIsBfloat ? 0x3f803f80u : 0x3c003c00u;

/// A product that is rounded before anything is added, so that all kernels with fixed splits find
/// the same rounding errors of it.
template <bool kFixed>
__device__ inline float product(float a, float b) {
  return kFixed ? __fmul_rn(a, b) : a * b;
}

/// Of no parts at first. `max` is minus infinity while no part has seen a position.
struct Fold {
  /// What totals and sums are multiplied by when a part is added.
  struct Weights {
    float so_far;
    float next;

    __device__ float folded(float sum, float part) const {
      return __fmaf_rn(sum, so_far, __fmul_rn(part, next));
    }
    __device__ float4 folded(const float4& sum, const float4& part) const {
      return {folded(sum.x, part.x), folded(sum.y, part.y), folded(sum.z, part.z),
              folded(sum.w, part.w)};
    }
  };

  float max = -INFINITY;  // in units of log2

  __device__ Weights add(float part_max) {
    const float most = fmaxf(max, part_max);
    const float base = finite_base(most);
    const Weights weights{fast_exp2(max - base), fast_exp2(part_max - base)};
    max = most;
    return weights;
  }
};

}  // namespace attacca::kernels::attending
