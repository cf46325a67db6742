// attention_fold.cuh: the rules by which sums of attention are rescaled and folded, from left to
// right. A partial result is a base in units of log2, and a total and sums of weights relative to
// it. The same parts in the same order give the same bits, wherever they were computed.
#pragma once

#include "kernels/attention/attention_ptx.cuh"

namespace attacca::kernels::attending {

/// What weights are relative to once a score `most` was seen. It follows the largest score only
/// where that is much larger: a weight may be 256, and sums are seldom rescaled.
__device__ inline float next_base(float base, float most) { return most > base + 8 ? most : base; }

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
    const float base = most == -INFINITY ? 0 : most;
    const Weights weights{fast_exp2(max - base), fast_exp2(part_max - base)};
    max = most;
    return weights;
  }
};

}  // namespace attacca::kernels::attending
