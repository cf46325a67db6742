// attention_elements.cuh: keys and values as they lie in pages, on their way to the tensor cores:
// loads of eight neighbours, and pairs of 16-bit numbers made of them. bf16 and f16 are multiplied
// as they are; fp8 becomes f16, and f32 a bf16 and what the bf16 left, where that counts.
#pragma once

#include "kernels/attention/attention_ptx.cuh"
#include "kernels/attention/paged_kv.hpp"

namespace attacca::kernels::attending {

/// Whether products of this type are of bf16; else of f16.
constexpr bool is_bfloat(KvType type) { return type == KvType::bf16 || type == KvType::f32; }

/// What a pair lacks of the floats it was made of.
template <bool kIsBfloat>
__device__ inline std::uint32_t rest_of(float low, float high, std::uint32_t pair) {
  const float2 rounded = floats_of<kIsBfloat>(pair);
  return pair_of<kIsBfloat>(low - rounded.x, high - rounded.y);
}

/// Eight neighbours: elements 2i and 2i + 1 are in word i.
struct Pairs {
  std::uint32_t words[4];
};

/// Eight neighbouring elements as they lie in a page.
template <KvType kType>
struct Eight {
  static constexpr unsigned kWords = 2 * kv_element_bytes(kType);
  static constexpr bool kIsBfloat = is_bfloat(kType);
  std::uint32_t words[kWords];

  /// From a page: read once, so not worth a place in L1. Zeros where not `is_there`. REQUIRES:
  /// aligned to eight elements, or to 16 bytes where those are more.
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
  /// From shared memory.
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
  /// f32: what `pairs` lacks.
  __device__ Pairs rests(const Pairs& of) const {
    Pairs result;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      result.words[i] = rest_of<true>(__uint_as_float(words[2 * i]),
                                      __uint_as_float(words[2 * i + 1]), of.words[i]);
    return result;
  }
};

/// Two neighbouring elements, as they are stored.
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
