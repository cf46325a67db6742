// streamed_multiply.cuh: multiplies a group of 32 columns on the tensor cores for
// streamed_linear.cuh. For quantized weights it rounds x to integers and applies the scales.
// Decoding weights is left to streamed_weights.cuh.
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

/// a b of signed bytes: 16 rows of a, 8 rows of b, 32 columns of both.
__device__ inline int4 multiply_bytes(const uint4& a, const uint2& b) {
  int4 c;
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %10, %10, %10};"
      : "=r"(c.x), "=r"(c.y), "=r"(c.z), "=r"(c.w)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "r"(0));
  return c;
}

/// x of 32 columns for quantized weights: integers of 16 bits, in two planes of bytes, and for the
/// two rows of x whose products a lane holds their scales and, if `least` is needed, their sums.
struct IntegerX {
  __device__ static IntegerX from(const uint4 (&x)[2]) {
    return {{x[0].x, x[0].y},
            {x[0].z, x[0].w},
            {__uint_as_float(x[1].x), __uint_as_float(x[1].y)},
            {__uint_as_float(x[1].z), __uint_as_float(x[1].w)}};
  }
  __device__ void put(uint4 (&x)[2]) const {
    x[0] = {high.x, high.y, low.x, low.y};
    x[1] = {__float_as_uint(scale[0]), __float_as_uint(scale[1]), __float_as_uint(sum[0]),
            __float_as_uint(sum[1])};
  }
  uint2 high;
  uint2 low;
  float scale[2];
  float sum[2];
};

/// The products of 16 rows of quants.
__device__ inline float4 multiply_planes(const uint4& w, const uint2& high, const uint2& low,
                                         const float (&scale)[2]) {
  const int4 much = multiply_bytes(w, high);
  const int4 little = multiply_bytes(w, low);
  return {scale[0] * static_cast<float>(much.x * 256 + little.x),
          scale[1] * static_cast<float>(much.y * 256 + little.y),
          scale[0] * static_cast<float>(much.z * 256 + little.z),
          scale[1] * static_cast<float>(much.w * 256 + little.w)};
}

__device__ inline float low_half(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_half(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
/// The larger magnitude; NaN if either is.
__device__ inline float larger(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(fabsf(a)), "f"(fabsf(b)));
  return result;
}

/// Rounds a lane's 8 of 32 columns of x, given as x and its rounding error, to multiples of 1/32512
/// of the largest of the 32. Lanes 4i to 4i + 3 have row i.
template <bool kHasLeast>
__device__ IntegerX integers(const uint4& x, const uint4& rest) {
  const unsigned words[] = {x.x, x.y, x.z, x.w};
  const unsigned more[] = {rest.x, rest.y, rest.z, rest.w};
  float values[8];
  float most = 0;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    values[2 * i] = low_half(words[i]) + low_half(more[i]);
    values[2 * i + 1] = high_half(words[i]) + high_half(more[i]);
    most = larger(most, larger(values[2 * i], values[2 * i + 1]));
  }
  most = larger(most, __shfl_xor_sync(~0u, most, 1));
  most = larger(most, __shfl_xor_sync(~0u, most, 2));
  most = larger(most, 1e-30f);
  const float inverse = __fdividef(32512.0f, most);
  // Added to 1.5 * 2^23, integers are the low bits. 128 more, and the high byte is rounded; the low
  // byte is then 128 too large, which is a matter of its first bit.
  unsigned bits[8], planes[4];
#pragma unroll
  for (unsigned i = 0; i < 8; ++i)
    bits[i] = __float_as_uint(fmaf(values[i], inverse, 12582912.0f + 128.0f));
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) planes[i] = __byte_perm(bits[2 * i], bits[2 * i + 1], 0x4051);
  IntegerX result;
  result.high = {__byte_perm(planes[0], planes[1], 0x5410),
                 __byte_perm(planes[2], planes[3], 0x5410)};
  result.low = {__byte_perm(planes[0], planes[1], 0x7632) ^ 0x80808080u,
                __byte_perm(planes[2], planes[3], 0x7632) ^ 0x80808080u};
  const float scale = most * (1 / 32512.0f);
#pragma unroll
  for (unsigned i = 0; i < 2; ++i)
    result.scale[i] = __shfl_sync(~0u, scale, threadIdx.x % 4 * 8 + i * 4);
  result.sum[0] = result.sum[1] = 0;
  if constexpr (kHasLeast) {
    constexpr unsigned kOnes = 0x01010101u;
    const float4 sums =
        multiply_planes({kOnes, kOnes, kOnes, kOnes}, result.high, result.low, result.scale);
    result.sum[0] = sums.x;
    result.sum[1] = sums.y;
  }
  return result;
}

/// Adds the products of two rows' blocks of quants, which lie at `low` and `high`; a lane's quants
/// are `lane_at` bytes further on.
template <class Weights>
__device__ void add_blocks(float (&sums)[4], const unsigned char* low, const unsigned char* high,
                           unsigned lane_at, const IntegerX& x) {
  const uint2 first = Weights::quants(low + lane_at);
  const uint2 second = Weights::quants(high + lane_at);
  const float4 products =
      multiply_planes({first.x, second.x, first.y, second.y}, x.high, x.low, x.scale);
  const typename Weights::Scale scales[] = {Weights::scale(low), Weights::scale(high)};
  sums[0] = fmaf(scales[0].factor, products.x, sums[0]);
  sums[1] = fmaf(scales[0].factor, products.y, sums[1]);
  sums[2] = fmaf(scales[1].factor, products.z, sums[2]);
  sums[3] = fmaf(scales[1].factor, products.w, sums[3]);
  if constexpr (Weights::kHasLeast)
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) sums[i] = fmaf(scales[i / 2].least, x.sum[i % 2], sums[i]);
}

}  // namespace attacca::kernels::streamed
