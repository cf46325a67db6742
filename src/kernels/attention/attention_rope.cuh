// attention_rope.cuh: one warp applies the norm and RoPE to one head. All kernels that store keys
// use this code; sm90_rotating_epilogue.cuh, which rotates tiles, shares rotate_pair. Every
// rounding is explicit, so a key is the same bits whichever kernel stores it.
#pragma once

#include "kernels/attention/paged_kv.hpp"
#include "kernels/attention/rope_store.hpp"

namespace attacca::kernels::attending {

/// The cosine and sine of position * frequency. The angle is reduced to a fraction of a turn in
/// double precision: in floats, late positions are off by more than the sine's own precision.
__device__ inline float2 angle_of(float frequency, std::int32_t position) {
  constexpr double kTurnsPerRadian = 0.15915494309189533577;
  const double turns =
      static_cast<double>(position) * static_cast<double>(frequency) * kTurnsPerRadian;
  float2 angle;
  sincospif(2 * static_cast<float>(turns - rint(turns)), &angle.y, &angle.x);
  return angle;
}

/// Rotates two elements of a head by an angle.
__device__ inline void rotate_pair(float& first, float& second, float cosine, float sine) {
  const float a = first, b = second;
  first = __fmaf_rn(a, cosine, -__fmul_rn(b, sine));
  second = __fmaf_rn(b, cosine, __fmul_rn(a, sine));
}

/// Cosines and sines of one position; lane l holds those of pairs l, l + 32, ...
template <unsigned kSize>
struct Angles {
  static constexpr unsigned kEach = (kSize / 2 + 31) / 32;
  float2 values[kEach];

  __device__ void find(const float* frequencies, std::uint32_t half, std::int32_t position) {
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) {
      const std::uint32_t at = threadIdx.x % 32 + 32 * i;
      if (at < half) values[i] = angle_of(frequencies[at], position);
    }
  }
  /// Loads from a table of kSize / 2 entries.
  __device__ void load(const float2* table) {
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) values[i] = table[threadIdx.x % 32 + 32 * i];
  }
};

/// The norm and the rotation of a head.
struct RopeParams {
  const float* norm;  // [head_size], or null
  float epsilon;
  RotaryPairs pairs;
  std::uint32_t half;  // half of the elements that rotate
  std::uint32_t size;  // of the head
};

/// Writes the head at `from`, normalized and rotated, to `to` in shared memory. All lanes of a warp
/// call; on return all of the head is written.
template <unsigned kSize>
__device__ inline void rope_head(const float* from, float* to, const Angles<kSize>& angles,
                                 const RopeParams& rope) {
  constexpr unsigned kEach = (kSize + 31) / 32;
  const unsigned lane = threadIdx.x % 32;
  float x[kEach];
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i) x[i] = lane + 32 * i < rope.size ? from[lane + 32 * i] : 0;
  if (rope.norm) {
    float sum = 0;
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) sum = __fmaf_rn(x[i], x[i], sum);
#pragma unroll
    for (unsigned step = 16; step != 0; step /= 2)
      sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    const float mean = __fdiv_rn(sum, static_cast<float>(rope.size));
    const float factor = __fdiv_rn(1, __fsqrt_rn(__fadd_rn(mean, rope.epsilon)));
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i)
      if (lane + 32 * i < rope.size)
        x[i] = __fmul_rn(__fmul_rn(x[i], factor), rope.norm[lane + 32 * i]);
  }
  __syncwarp();  // `from` may be `to`: all lanes have read it
#pragma unroll
  for (unsigned i = 0; i < kEach; ++i)
    if (lane + 32 * i < rope.size) to[lane + 32 * i] = x[i];
  __syncwarp();
#pragma unroll
  for (unsigned i = 0; i < Angles<kSize>::kEach; ++i) {
    const std::uint32_t at = lane + 32 * i;
    if (at >= rope.half) continue;
    float& first = rope.pairs == RotaryPairs::adjacent ? to[2 * at] : to[at];
    float& second = rope.pairs == RotaryPairs::adjacent ? to[2 * at + 1] : to[at + rope.half];
    rotate_pair(first, second, angles.values[i].x, angles.values[i].y);
  }
  __syncwarp();
}

}  // namespace attacca::kernels::attending
