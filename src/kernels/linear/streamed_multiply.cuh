// streamed_multiply.cuh: multiplies a group of 32 columns on the tensor cores for
// streamed_linear.cuh, and applies the scales of quantized weights. Decoding weights is left to
// streamed_weights.cuh.
#pragma once

#include "kernels/linear/streamed_weights.cuh"

namespace attacca::kernels::streamed {

/// c += a b: 16 rows of a, 8 rows of b, 16 columns of both.
__device__ inline void multiply(float (&c)[4], const uint4& a, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/// The A operands of two instructions: a lane's 8 columns of two rows of weights that are 8 rows
/// apart.
struct WeightFragments {
  __device__ WeightFragments(const uint4& low, const uint4& high)
      : first{low.x, high.x, low.y, high.y}, second{low.z, high.z, low.w, high.w} {}
  uint4 first;
  uint4 second;
};

/// Multiplies by x and by its rounding error. Neighbouring instructions use different accumulators,
/// so neither waits for the other.
__device__ inline void multiply_both(float (&sums)[2][4], const WeightFragments& w,
                                     const uint4 (&x)[2]) {
#pragma unroll
  for (unsigned n = 0; n < 2; ++n) {
    multiply(sums[0], w.first, x[n].x, x[n].y);
    multiply(sums[1], w.second, x[n].z, x[n].w);
  }
}

/// Sums of x and its rounding error over the group, for two rows of x, in the lanes that hold those
/// rows' products.
__device__ inline void sum_up(float (&result)[2], const uint4 (&x)[2]) {
  constexpr unsigned kOnes = 0x3f803f80u;
  constexpr uint4 kAll{kOnes, kOnes, kOnes, kOnes};
  float sums[2][4] = {};
  multiply_both(sums, WeightFragments(kAll, kAll), x);
  for (unsigned i = 0; i < 2; ++i) result[i] = sums[0][i] + sums[1][i];
}

/// Adds the scaled products of two rows' blocks of quants, which lie at `low` and `high`.
template <class Weights>
__device__ void add_scaled(float (&sums)[4], const WeightFragments& w, const uint4 (&x)[2],
                           const unsigned char* low, const unsigned char* high,
                           const float (&x_sums)[2]) {
  float products[2][4] = {};
  multiply_both(products, w, x);
  const typename Weights::Scale scales[] = {Weights::scale(low), Weights::scale(high)};
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    sums[i] = fmaf(scales[i / 2].factor, products[0][i] + products[1][i], sums[i]);
    if (Weights::kHasLeast) sums[i] = fmaf(scales[i / 2].least, x_sums[i % 2], sums[i]);
  }
}

}  // namespace attacca::kernels::streamed
