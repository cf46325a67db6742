// attention_warp.cuh: one warp attends over 16 positions at a time, for up to eight heads that
// share a kv head, with an online softmax. Keys and values go from memory straight into registers,
// in the layout that the tensor cores want. Pages and splits are left to attention_rows.cuh.
//
// Scores are keys times queries: 16 positions by 8 heads. A lane holds the scores of positions lane
// / 4 and lane / 4 + 8 for heads lane % 4 * 2 and the next one. Any dimensions may meet in one
// instruction as long as keys and queries agree, so a lane loads eight neighbours. Sums are values
// times weights: 16 dimensions by 8 heads, in the same layout. There any dimensions may make up the
// 16.
#pragma once

#include "kernels/attention/attention_elements.cuh"
#include "kernels/attention/attention_fold.cuh"

namespace attacca::kernels::attending {

/// Up to eight queries in shared memory, multiplied by scale and log2(e). Each is the sum of two
/// 16-bit numbers and so nearly exact. The extra products cost nothing here.
template <unsigned kSize>
struct Queries {
  static constexpr unsigned kStride = kSize + 32;  // puts two rows 16 banks apart
  static constexpr unsigned kHeads = 8;
  alignas(16) std::uint16_t values[kHeads * kStride];
  alignas(16) std::uint16_t rests[kHeads * kStride];

  /// All `threads` threads call. Unused heads and dimensions stay zero.
  __device__ void clear(unsigned thread, unsigned threads) {
    for (unsigned at = thread; at < kHeads * kStride / 2; at += threads) {
      reinterpret_cast<std::uint32_t*>(values)[at] = 0;
      reinterpret_cast<std::uint32_t*>(rests)[at] = 0;
    }
  }
  template <bool kIsBfloat>
  __device__ void store_pair(unsigned head, unsigned at, float first, float second) {
    const std::uint32_t pair = pair_of<kIsBfloat>(first, second);
    *reinterpret_cast<std::uint32_t*>(values + head * kStride + at) = pair;
    *reinterpret_cast<std::uint32_t*>(rests + head * kStride + at) =
        rest_of<kIsBfloat>(first, second, pair);
  }
};

/// Keys and values of 16 positions of one kv head, in the registers of a warp. Positions are
/// counted from the first of the 16; those outside [from, to) are zeros.
template <KvType kType, unsigned kSize>
struct Positions {
  static constexpr unsigned kBytes = kv_element_bytes(kType);
  Eight<kType> keys[2][kSize / 32];    // of positions lane / 4 and lane / 4 + 8
  Eight<kType> values[4][kSize / 64];  // of positions lane % 4 * 2 + {0, 1, 8, 9}

  /// `at` is the first position's key or value in a page.
  __device__ void load_keys(const unsigned char* at, std::uint32_t head_size, unsigned from,
                            unsigned to) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned position = lane / 4 + 8 * half;
#pragma unroll
      for (unsigned part = 0; part < kSize / 32; ++part) {
        const unsigned dimension = part * 32 + lane % 4 * 8;
        keys[half][part].load(at + (position * head_size + dimension) * kBytes,
                              position >= from && position < to && dimension < head_size);
      }
    }
  }
  __device__ void load_values(const unsigned char* at, std::uint32_t head_size, unsigned from,
                              unsigned to) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned position = lane % 4 * 2 + i % 2 + i / 2 * 8;
#pragma unroll
      for (unsigned part = 0; part < kSize / 64; ++part) {
        const unsigned dimension = part * 64 + lane / 4 * 8;
        values[i][part].load(at + (position * head_size + dimension) * kBytes,
                             position >= from && position < to && dimension < head_size);
      }
    }
  }
  /// Copies one position from shared memory: kSize elements, zeros past the head's.
  __device__ void copy_key(const unsigned char* key) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
#pragma unroll
      for (unsigned part = 0; part < kSize / 32; ++part)
        keys[half][part].copy(key + (part * 32 + lane % 4 * 8) * kBytes, lane / 4 + half == 0);
  }
  __device__ void copy_value(const unsigned char* value) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
#pragma unroll
      for (unsigned part = 0; part < kSize / 64; ++part)
        values[i][part].copy(value + (part * 64 + lane / 4 * 8) * kBytes, lane % 4 + i == 0);
  }
  /// Puts a position from shared memory among the others, as number `at` of the 16.
  __device__ void put_key(const unsigned char* key, unsigned at) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
#pragma unroll
      for (unsigned part = 0; part < kSize / 32; ++part)
        if (lane / 4 + 8 * half == at)
          keys[half][part].copy(key + (part * 32 + lane % 4 * 8) * kBytes, true);
  }
  __device__ void put_value(const unsigned char* value, unsigned at) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
#pragma unroll
      for (unsigned part = 0; part < kSize / 64; ++part)
        if (lane % 4 * 2 + i % 2 + i / 2 * 8 == at)
          values[i][part].copy(value + (part * 64 + lane / 4 * 8) * kBytes, true);
  }
};

/// The online softmax of a warp over the positions it has seen, for this lane's two heads.
/// `kFixed`: of a chain, by the rules of attention_fold.cuh.
template <KvType kType, unsigned kSize, bool kFixed = false>
struct OnlineSoftmax {
  static constexpr bool kIsBfloat = is_bfloat(kType);
  float max[2];  // what scores are relative to, in units of log2
  /// Sums over this lane's positions, after `finish` over all lanes'. A chain has the latter twice.
  float total[kFixed ? 4 : 2];
  float sums[kSize / 16][4];  // [..][dimension of a pair * 2 + head]

  __device__ void clear() {
#pragma unroll
    for (unsigned head = 0; head < 2; ++head) {
      max[head] = -INFINITY;
      total[head] = 0;
    }
    if constexpr (kFixed) total[2] = total[3] = 0;
#pragma unroll
    for (unsigned i = 0; i < kSize / 16; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) sums[i][j] = 0;
  }

  /// Scores of positions [from, to); minus infinity for the others.
  __device__ static void score(const Positions<kType, kSize>& at, const Queries<kSize>& queries,
                               unsigned from, unsigned to, float (&scores)[4]) {
    const unsigned lane = threadIdx.x % 32;
    float large[4] = {};
    float small[4] = {};
#pragma unroll
    for (unsigned part = 0; part < kSize / 32; ++part) {
      const unsigned mine = lane / 4 * Queries<kSize>::kStride + part * 32 + lane % 4 * 8;
      const uint4 q = *reinterpret_cast<const uint4*>(queries.values + mine);
      const uint4 rest = *reinterpret_cast<const uint4*>(queries.rests + mine);
      const Pairs low = at.keys[0][part].pairs();
      const Pairs high = at.keys[1][part].pairs();
      const auto times = [](float(&sum)[4], const Pairs& a, const Pairs& b, const uint4& with) {
        mma<kIsBfloat>(sum, a.words[0], b.words[0], a.words[1], b.words[1], with.x, with.y);
        mma<kIsBfloat>(sum, a.words[2], b.words[2], a.words[3], b.words[3], with.z, with.w);
      };
      times(large, low, high, q);
      times(kFixed ? large : small, low, high, rest);
      if constexpr (kType == KvType::f32)
        times(small, at.keys[0][part].rests(low), at.keys[1][part].rests(high), q);
    }
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned position = lane / 4 + i / 2 * 8;
      scores[i] =
          position >= from && position < to ? (kFixed ? large[i] : large[i] + small[i]) : -INFINITY;
    }
  }

  /// Adds the values, weighted by their scores. REQUIRES: not all scores are minus infinity.
  __device__ void add(const Positions<kType, kSize>& at, const float (&scores)[4]) {
    static_assert(!kFixed);
    float factor[2];
#pragma unroll
    for (unsigned head = 0; head < 2; ++head) {
      float most = fmaxf(scores[head], scores[head + 2]);
#pragma unroll
      for (unsigned step = 4; step < 32; step *= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
      most = fmaxf(most, max[head]);
      factor[head] = fast_exp2(max[head] - most);
      max[head] = most;
    }
    // Weights are sums of two numbers too, so it hardly matters which positions are summed
    // together.
    std::uint32_t weights[2];
    std::uint32_t rests[2];
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const float first = fast_exp2(scores[2 * half] - max[0]);
      const float second = fast_exp2(scores[2 * half + 1] - max[1]);
      total[0] = half == 0 ? total[0] * factor[0] + first : total[0] + first;
      total[1] = half == 0 ? total[1] * factor[1] + second : total[1] + second;
      const std::uint32_t pair = pair_of<kIsBfloat>(first, second);
      // Transposes from one row for each position to one row for each head.
      weights[half] = transposed(pair);
      rests[half] = transposed(rest_of<kIsBfloat>(first, second, pair));
    }
#pragma unroll
    for (unsigned part = 0; part < kSize / 64; ++part) {
      Pairs values[4];
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) values[i] = at.values[i][part].pairs();
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        float(&sum)[4] = sums[part * 4 + i];
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) sum[j] *= factor[j % 2];
        multiply(sum, values, i, weights);
        multiply(sum, values, i, rests);
        if constexpr (kType == KvType::f32) {
          Pairs value_rests[4];
#pragma unroll
          for (unsigned k = 0; k < 4; ++k) value_rests[k] = at.values[k][part].rests(values[k]);
          multiply(sum, value_rests, i, weights);
        }
      }
    }
  }
  /// Adds 16 positions to a chain. They may all be masked.
  __device__ void add_to_chain(const Positions<kType, kSize>& at, const float (&scores)[4]) {
    static_assert(kFixed);
    float base[2];
    float factor[2];
    bool rescales = false;
#pragma unroll
    for (unsigned head = 0; head < 2; ++head) {
      float most = fmaxf(scores[head], scores[head + 2]);
#pragma unroll
      for (unsigned step = 4; step < 32; step *= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
      const float before = max[head];
      max[head] = next_base<kIsBfloat>(before, most);
      base[head] = finite_base(max[head]);
      factor[head] = fast_exp2(before - base[head]);
      rescales = rescales || (before != max[head] && before != -INFINITY);
    }
    if (__any_sync(~0u, rescales)) {
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) total[j] *= factor[j % 2];
#pragma unroll
      for (unsigned i = 0; i < kSize / 16; ++i)
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) sums[i][j] *= factor[j % 2];
    }
    std::uint32_t weights[2];
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
      weights[half] = transposed(pair_of<kIsBfloat>(fast_exp2(scores[2 * half] - base[0]),
                                                    fast_exp2(scores[2 * half + 1] - base[1])));
    constexpr std::uint32_t kOne = kOnes<kIsBfloat>;
    mma<kIsBfloat>(total, kOne, kOne, kOne, kOne, weights[0], weights[1]);
#pragma unroll
    for (unsigned part = 0; part < kSize / 64; ++part) {
      Pairs values[4];
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) values[i] = at.values[i][part].pairs();
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) multiply(sums[part * 4 + i], values, i, weights);
    }
  }
  /// Adds dimensions 2i and 2i + 1 of each eight to their sums.
  __device__ static void multiply(float (&sum)[4], const Pairs (&values)[4], unsigned i,
                                  const std::uint32_t (&weights)[2]) {
    // Packs neighbouring positions of one dimension into a pair: low halves, then high ones.
    const std::uint32_t low = __byte_perm(values[0].words[i], values[1].words[i], 0x5410);
    const std::uint32_t high = __byte_perm(values[0].words[i], values[1].words[i], 0x7632);
    const std::uint32_t low8 = __byte_perm(values[2].words[i], values[3].words[i], 0x5410);
    const std::uint32_t high8 = __byte_perm(values[2].words[i], values[3].words[i], 0x7632);
    mma<kIsBfloat>(sum, low, high, low8, high8, weights[0], weights[1]);
  }

  /// Adds up the totals of all lanes. A chain does not need it.
  __device__ void finish() {
#pragma unroll
    for (unsigned head = 0; head < 2; ++head)
#pragma unroll
      for (unsigned step = 4; step < 32; step *= 2)
        total[head] += __shfl_xor_sync(~0u, total[head], step);
  }

  /// Stores this lane's sums in rows of `stride` floats, one for each head below `heads`.
  __device__ void store_sums(float* rows, unsigned stride, unsigned heads) const {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned head = 0; head < 2; ++head) {
      if (lane % 4 * 2 + head >= heads) continue;
      float* row = rows + (lane % 4 * 2 + head) * stride + lane / 4 * 8;
#pragma unroll
      for (unsigned part = 0; part < kSize / 64; ++part)
#pragma unroll
        for (unsigned i = 0; i < 4; i += 2)
          *reinterpret_cast<float4*>(row + part * 64 + i * 2) = {
              sums[part * 4 + i][head], sums[part * 4 + i][head + 2], sums[part * 4 + i + 1][head],
              sums[part * 4 + i + 1][head + 2]};
    }
  }
};

}  // namespace attacca::kernels::attending
