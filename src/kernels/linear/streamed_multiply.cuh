// streamed_multiply.cuh: multiplies a group of 32 columns on the tensor cores for
// streamed_linear.cuh. For quantized weights it rounds x to integers and applies the scales.
// Decoding weights is left to streamed_weights.cuh.
#pragma once

#include "kernels/linear/streamed_weights.cuh"

namespace attacca::kernels::streamed {

/// c += a b: 16 rows of a, 8 rows of b, 16 columns of both, in bf16 or f16.
template <bool kIsHalf = false>
__device__ void multiply(float (&c)[4], const uint4& a, unsigned b0, unsigned b1) {
  if constexpr (kIsHalf)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  else
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

// For f16 weights x becomes f16 too, which has fewer exponents than bf16. Numbers below 2048 are
// multiplied by 16: they keep their bits from 2^-21 on, and smaller ones are off by at most 2^-29.
// Larger numbers, up to 2^31, are rows of their own with another scale: an instruction has 16 rows
// of x, so with 8 the others are free. A number's row does not depend on other numbers, and so a
// row of y does not depend on other rows.
constexpr float kSmallScale = 0x1p4f;
constexpr float kLargeScale = 0x1p-15f;

__device__ inline __nv_bfloat162 bfloats(unsigned pair) {
  return reinterpret_cast<const __nv_bfloat162&>(pair);
}
/// Two numbers of bf16, scaled, as f16.
__device__ inline unsigned halves(unsigned pair, float scale) {
  const __half2 both = __floats2half2_rn(low_half(pair) * scale, high_half(pair) * scale);
  return reinterpret_cast<const unsigned&>(both);
}
__device__ inline uint4 halves(const uint4& x, float scale) {
  return {halves(x.x, scale), halves(x.y, scale), halves(x.z, scale), halves(x.w, scale)};
}
/// The larger magnitudes of each two; of NaN the other.
__device__ inline __nv_bfloat162 largest(const uint4& x, const __nv_bfloat162& most) {
  return __hmax2(__hmax2(__hmax2(most, __habs2(bfloats(x.x))), __habs2(bfloats(x.y))),
                 __hmax2(__habs2(bfloats(x.z)), __habs2(bfloats(x.w))));
}
/// All bits of each number that has a row of its own.
__device__ inline unsigned mask_of_large(unsigned pair) {
  return __hge2_mask(__habs2(bfloats(pair)), __float2bfloat162_rn(2048));
}
__device__ inline uint4 mask_of_large(const uint4& x) {
  return {mask_of_large(x.x), mask_of_large(x.y), mask_of_large(x.z), mask_of_large(x.w)};
}
__device__ inline uint4 masked(const uint4& x, const uint4& mask) {
  return {x.x & mask.x, x.y & mask.y, x.z & mask.z, x.w & mask.w};
}
/// The rows of small and of large numbers.
__device__ inline void split_by_size(uint4 (&rows)[2], const uint4& x) {
  const uint4 mask = mask_of_large(x);
  rows[0] = halves(masked(x, {~mask.x, ~mask.y, ~mask.z, ~mask.w}), kSmallScale);
  rows[1] = halves(masked(x, mask), kLargeScale);
}
/// The sum of both rows' products.
__device__ inline float joined(float small, float large) {
  return fmaf(large, 1 / kLargeScale, small * (1 / kSmallScale));
}

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
