// attention_elements.cuh: the elements of keys and values between pages and tensor cores: loads of
// eight neighbours, and their conversion to pairs of 16-bit numbers. bf16 and f16 are multiplied as
// they are. fp8 becomes f16. f32 becomes a bf16 and, where it matters, its rounding error.
#pragma once

#include "kernels/attention/attention_ptx.cuh"
#include "kernels/attention/paged_kv.hpp"

namespace attacca::kernels::attending {

/// Whether this type is multiplied as bf16; otherwise as f16.
constexpr bool is_bfloat(KvType type) { return type == KvType::bf16 || type == KvType::f32; }

/// The rounding errors of a pair, as another pair.
template <bool kIsBfloat>
__device__ inline std::uint32_t rest_of(float low, float high, std::uint32_t pair) {
  const float2 rounded = floats_of<kIsBfloat>(pair);
  return pair_of<kIsBfloat>(low - rounded.x, high - rounded.y);
}

/// Eight neighbouring elements; word i holds elements 2i and 2i + 1.
struct Pairs {
  std::uint32_t words[4];
};

/// Eight neighbouring elements as they lie in a page.
template <KvType kType>
struct Eight {
  static constexpr unsigned kWords = 2 * kv_element_bytes(kType);
  static constexpr bool kIsBfloat = is_bfloat(kType);
  std::uint32_t words[kWords];

  /// Loads from a page, without L1 since it is read once. Zeros unless `is_there`. REQUIRES:
  /// aligned to eight elements, or to 16 bytes if those are more.
  __device__ void load(const void* from, bool is_there) {
    if constexpr (kWords == 2) {
      load_once(from, is_there, words[0], words[1]);
    } else {
#pragma unroll
      for (unsigned at = 0; at < kWords; at += 4)
        load_once(static_cast<const std::uint32_t*>(from) + at, is_there, words[at], words[at + 1],
                  words[at + 2], words[at + 3]);
    }
  }
  /// Loads from shared memory.
  __device__ void copy(const void* from, bool is_there) {
#pragma unroll
    for (unsigned at = 0; at < kWords; ++at)
      words[at] = is_there ? static_cast<const std::uint32_t*>(from)[at] : 0;
  }

  __device__ Pairs pairs() const {
    Pairs result;
    if constexpr (kType == KvType::f32) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i)
        result.words[i] =
            pair_of<true>(__uint_as_float(words[2 * i]), __uint_as_float(words[2 * i + 1]));
    } else if constexpr (kType == KvType::fp8) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i)
        result.words[i] = halves_of_fp8(static_cast<std::uint16_t>(words[i / 2] >> 16 * (i % 2)));
    } else {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) result.words[i] = words[i];
    }
    return result;
  }
  /// f32: the rounding errors of `pairs`.
  __device__ Pairs rests(const Pairs& of) const {
    Pairs result;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      result.words[i] = rest_of<true>(__uint_as_float(words[2 * i]),
                                      __uint_as_float(words[2 * i + 1]), of.words[i]);
    return result;
  }
};

/// Stores two neighbouring elements in the cache's type.
template <KvType kType>
__device__ inline void store_two(void* to, float first, float second) {
  if constexpr (kType == KvType::f32) {
    *static_cast<float2*>(to) = {first, second};
  } else if constexpr (kType == KvType::fp8) {
    *static_cast<std::uint16_t*>(to) = fp8_pair_of(first, second);
  } else {
    *static_cast<std::uint32_t*>(to) = pair_of<is_bfloat(kType)>(first, second);
  }
}

}  // namespace attacca::kernels::attending
