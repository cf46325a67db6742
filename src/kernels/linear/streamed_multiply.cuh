// streamed_multiply.cuh: what the tensor cores do in streamed_linear.cuh with a group of 32
// columns, and how the scales of quantized weights come in.
#pragma once

#include "kernels/linear/streamed_weights.cuh"

namespace attacca::kernels::streamed {

/// c += a b for 16 rows of the one, 16 columns and 8 rows of the other.
__device__ inline void multiply(float (&c)[4], const uint4& a, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/// A lane's 8 columns of two rows of weights, 8 rows apart, in the order in which two instructions
/// take them.
struct Pairs {
  __device__ Pairs(const uint4& low, const uint4& high)
      : first{low.x, high.x, low.y, high.y}, second{low.z, high.z, low.w, high.w} {}
  uint4 first;
  uint4 second;
};

/// With x and its rest. An instruction need not wait for the one before it.
__device__ inline void multiply_both(float (&sums)[2][4], const Pairs& w, const uint4 (&x)[2]) {
#pragma unroll
  for (unsigned n = 0; n < 2; ++n) {
    multiply(sums[0], w.first, x[n].x, x[n].y);
    multiply(sums[1], w.second, x[n].z, x[n].w);
  }
}

/// The sums of x and its rest for two of its rows, in the lanes that have those rows' products.
__device__ inline void sum_up(float (&result)[2], const uint4 (&x)[2]) {
  constexpr unsigned kOnes = 0x3f803f80u;
  constexpr uint4 kAll{kOnes, kOnes, kOnes, kOnes};
  float sums[2][4] = {};
  multiply_both(sums, Pairs(kAll, kAll), x);
  for (unsigned i = 0; i < 2; ++i) result[i] = sums[0][i] + sums[1][i];
}

/// Adds the products of two rows' blocks of quants, which are at `low` and `high`.
template <class Weights>
__device__ void add_scaled(float (&sums)[4], const Pairs& w, const uint4 (&x)[2],
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
