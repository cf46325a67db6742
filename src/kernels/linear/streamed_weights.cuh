// streamed_weights.cuh: the types of weights that streamed_linear.cuh streams. Each says where in
// the bytes of 32 columns a lane finds its 8 of them, and makes of those four pairs in bf16, in the
// order of the columns: as the tensor cores take them beside x.
//
// Quants are small integers and so exact in bf16; the scale of 32 columns is applied in floats, to
// what the tensor cores add up of them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/matrix.hpp"

namespace attacca::kernels::streamed {

/// Bytes a and b of a word, as the low bytes of two halves.
template <unsigned a, unsigned b>
__device__ inline unsigned low_bytes(unsigned word) {
  return __byte_perm(word, 0, 0x4040 | a | b << 8);
}
/// Some bits of a word, and others that are set: one instruction, of which nvcc makes two.
template <unsigned kept, unsigned set>
__device__ inline unsigned masked(unsigned word) {
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "n"(kept), "n"(set));
  return result;
}
__device__ inline unsigned add_pair(unsigned a, unsigned b) {
  unsigned sum;
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}
__device__ inline unsigned multiply_pair(unsigned a, unsigned b) {
  unsigned product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
template <class T>
__device__ inline T load(const unsigned char* at) {
  return *reinterpret_cast<const T*>(at);
}

/// As they are.
struct Bfloats {
  static constexpr TensorType kType = TensorType::bf16;
  static constexpr bool kIsQuantized = false;
  static constexpr unsigned kTileRows = 8;
  static constexpr bool kHasRowScales = false;
  static constexpr unsigned kHead = 0;        // where the first lane's bytes are
  static constexpr unsigned kLaneBytes = 16;  // to those of the next lane
  // Behind a row. TMA wants rows at multiples of 128 bytes: at other places it streams
  // from memory up to a fourth slower (docs/performance.md), which costs more than lanes of two
  // rows that meet in a bank.
  static constexpr unsigned kPadding = 128;

  __device__ static uint4 pairs(const unsigned char* at) { return load<uint4>(at); }
};

/// e4m3, to be multiplied by a scale of their row.
struct Eights {
  static constexpr TensorType kType = TensorType::e4m3;
  static constexpr bool kIsQuantized = false;
  static constexpr unsigned kTileRows = 16;
  static constexpr bool kHasRowScales = true;
  static constexpr unsigned kHead = 0;
  static constexpr unsigned kLaneBytes = 8;
  static constexpr unsigned kPadding = 32;  // lanes of four rows reach all banks

  __device__ static uint4 pairs(const unsigned char* at) {
    const uint2 bytes = load<uint2>(at);
    return {pair(__byte_perm(bytes.x, 0, 0x1404)), pair(__byte_perm(bytes.x, 0, 0x3424)),
            pair(__byte_perm(bytes.y, 0, 0x1404)), pair(__byte_perm(bytes.y, 0, 0x3424))};
  }

 private:
  /// Of the high bytes of two halves. In the places of a bf16 their bits are 2^-120 of the number.
  __device__ static unsigned pair(unsigned high) {
    return multiply_pair((high >> 4 & 0x07f007f0u) | (high & 0x80008000u), 0x7b807b80u);
  }
};

/// Blocks of 32 columns. A lane has 4 columns of each half, so that lanes of eight rows reach all
/// banks. Rows are a multiple of 2 or 4 bytes long, and so are the words that are read.
struct Quants {
  static constexpr bool kIsQuantized = true;
  static constexpr unsigned kTileRows = 16;
  static constexpr bool kHasRowScales = false;
  static constexpr unsigned kLaneBytes = 4;
  // Behind a row, for what is copied before its first byte: copies begin at multiples of 16 bytes.
  // An odd number of 16 bytes from row to row is right for the banks, too.
  static constexpr unsigned kPadding = 16;

  /// What a block's quants are multiplied by, and what is added to each.
  struct Scale {
    float factor;
    float least;
  };

 protected:
  static constexpr unsigned k128 = 0x43004300u;  // where the last bit of a bf16 counts 1

  /// Four bits of each half, less some number.
  __device__ static unsigned nibbles(unsigned halves, unsigned less) {
    return add_pair(masked<0x000f000fu, k128>(halves), less);
  }
  /// 4 bytes: the first half of the columns in their low bits, the second one in the high ones.
  __device__ static uint4 nibble_pairs(unsigned word, unsigned less) {
    const unsigned first = low_bytes<0, 1>(word);
    const unsigned second = low_bytes<2, 3>(word);
    return {nibbles(first, less), nibbles(second, less), nibbles(first >> 4, less),
            nibbles(second >> 4, less)};
  }
  __device__ static float number(const unsigned char* at) { return __half2float(load<__half>(at)); }
};

struct Q8_0 : Quants {
  static constexpr TensorType kType = TensorType::q8_0;
  static constexpr bool kHasLeast = false;
  static constexpr unsigned kHead = 2;

  __device__ static uint4 pairs(const unsigned char* at) {
    return {pair(load<std::uint16_t>(at)), pair(load<std::uint16_t>(at + 2)),
            pair(load<std::uint16_t>(at + 16)), pair(load<std::uint16_t>(at + 18))};
  }
  __device__ static Scale scale(const unsigned char* block) { return {number(block), 0}; }

 private:
  /// Seven bits count up from 128; the eighth, in the place of an exponent's last bit, makes the
  /// 128 that are taken off again 256.
  __device__ static unsigned pair(unsigned word) {
    const unsigned bytes = low_bytes<0, 1>(word);
    return add_pair(masked<0x007f007fu, k128>(bytes), masked<0x00800080u, 0xc300c300u>(bytes));
  }
};

struct Q4_0 : Quants {
  static constexpr TensorType kType = TensorType::q4_0;
  static constexpr bool kHasLeast = false;
  static constexpr unsigned kHead = 2;

  __device__ static uint4 pairs(const unsigned char* at) {
    const unsigned word = load<std::uint16_t>(at) | unsigned{load<std::uint16_t>(at + 2)} << 16;
    return nibble_pairs(word, 0xc308c308u);  // -136
  }
  __device__ static Scale scale(const unsigned char* block) { return {number(block), 0}; }
};

struct Q4_1 : Quants {
  static constexpr TensorType kType = TensorType::q4_1;
  static constexpr bool kHasLeast = true;
  static constexpr unsigned kHead = 4;

  __device__ static uint4 pairs(const unsigned char* at) {
    return nibble_pairs(load<unsigned>(at), 0xc300c300u);  // -128
  }
  __device__ static Scale scale(const unsigned char* block) {
    const float2 both = __half22float2(load<__half2>(block));
    return {both.x, both.y};
  }
};

template <TensorType kType>
constexpr auto weights_of() {
  if constexpr (kType == TensorType::e4m3)
    return Eights{};
  else if constexpr (kType == TensorType::q8_0)
    return Q8_0{};
  else if constexpr (kType == TensorType::q4_0)
    return Q4_0{};
  else if constexpr (kType == TensorType::q4_1)
    return Q4_1{};
  else
    return Bfloats{};
}
template <TensorType kType>
using WeightsOf = decltype(weights_of<kType>());

}  // namespace attacca::kernels::streamed
