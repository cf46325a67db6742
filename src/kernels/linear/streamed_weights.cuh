// streamed_weights.cuh: the types of weights that streamed_linear.cuh streams. An instruction of
// the tensor cores multiplies 16 contiguous columns, of which a lane has four. Each type says where
// a lane finds its 8 columns in the bytes of 32, and converts them to four pairs of bf16.
//
// Quants are small integers, so they are exact in bf16. The scale of 32 columns is applied in fp32
// to their sum of products; see streamed_multiply.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/matrix.hpp"

namespace attacca::kernels::streamed {

/// Bytes a and b of a word as the low bytes of two 16-bit halves.
template <unsigned a, unsigned b>
__device__ inline unsigned low_bytes(unsigned word) {
  return __byte_perm(word, 0, 0x4040 | a | b << 8);
}
/// (word & kept) | set in one instruction; nvcc would make two of it.
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

/// bf16 weights need no conversion. A lane reads eight contiguous columns, which is fastest: an
/// instruction then multiplies every other four columns of 32.
struct Bf16 {
  static constexpr TensorType kType = TensorType::bf16;
  static constexpr bool kIsQuantized = false;
  static constexpr unsigned kTileRows = 8;
  static constexpr bool kHasRowScales = false;
  static constexpr bool kInOrder = false;     // the order of sum_order.cuh
  static constexpr bool kHasHalves = false;   // a lane has four columns of each half of 32
  static constexpr unsigned kHead = 0;        // offset of the first lane's bytes
  static constexpr unsigned kLaneBytes = 16;  // from one lane to the next
  // Bytes after each row. TMA streams up to a quarter slower to rows that are not at multiples of
  // 128 bytes (docs/trials.md, "Streamed linear layers"). That costs more than the bank conflicts
  // between lanes of two rows.
  static constexpr unsigned kPadding = 128;

  __device__ static uint4 pairs(const unsigned char* at) { return load<uint4>(at); }
};

/// The same in the order of sum_order.cuh: an instruction multiplies 16 contiguous columns, of
/// which a lane has four.
struct Bf16InOrder : Bf16 {
  static constexpr bool kInOrder = true;
  static constexpr bool kHasHalves = true;
  static constexpr unsigned kLaneBytes = 8;

  /// Reads four times 16 columns. Rows lie at multiples of 128 bytes, so lanes of four rows would
  /// meet in the same banks: each reads its 16 columns in another order, and puts them back.
  __device__ static void read(uint4 (&pairs)[2], const unsigned char* at, unsigned row) {
    uint2 words[4], half[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) words[i] = load<uint2>(at + (i ^ row % 4) * 32);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) half[i] = row % 2 != 0 ? words[i ^ 1] : words[i];
#pragma unroll
    for (unsigned i = 0; i < 4; i += 2) {
      const uint2 first = row / 2 % 2 != 0 ? half[i ^ 2] : half[i];
      const uint2 second = row / 2 % 2 != 0 ? half[(i + 1) ^ 2] : half[i + 1];
      pairs[i / 2] = {first.x, first.y, second.x, second.y};
    }
  }
};

/// e4m3 weights with one scale for each row.
struct E4m3 {
  static constexpr TensorType kType = TensorType::e4m3;
  static constexpr bool kIsQuantized = false;
  static constexpr unsigned kTileRows = 16;
  static constexpr bool kHasRowScales = true;
  static constexpr bool kInOrder = false;
  static constexpr bool kHasHalves = false;
  static constexpr unsigned kHead = 0;
  static constexpr unsigned kLaneBytes = 8;
  static constexpr unsigned kPadding = 32;  // lanes of four rows reach all banks

  __device__ static uint4 pairs(const unsigned char* at) {
    const uint2 bytes = load<uint2>(at);
    return {pair(__byte_perm(bytes.x, 0, 0x1404)), pair(__byte_perm(bytes.x, 0, 0x3424)),
            pair(__byte_perm(bytes.y, 0, 0x1404)), pair(__byte_perm(bytes.y, 0, 0x3424))};
  }

 private:
  /// Converts the high bytes of two halves. Shifted into a bf16, the bits of an e4m3 are 2^-120
  /// times its value.
  __device__ static unsigned pair(unsigned high) {
    return multiply_pair((high >> 4 & 0x07f007f0u) | (high & 0x80008000u), 0x7b807b80u);
  }
};

/// GGUF blocks of 32 columns. A lane has 4 columns of each half of a block, so that lanes of eight
/// rows reach all banks. Rows are a multiple of 2 or 4 bytes long, and so are the words that are
/// read.
struct Quants {
  static constexpr bool kIsQuantized = true;
  static constexpr unsigned kTileRows = 16;
  static constexpr bool kHasRowScales = false;
  static constexpr unsigned kLaneBytes = 4;
  // Bytes after each row. Copies begin at multiples of 16 bytes, so up to 16 bytes before a row are
  // copied too. An odd number of 16 bytes from row to row also avoids bank conflicts.
  static constexpr unsigned kPadding = 16;

  static constexpr bool kInOrder = false;
  static constexpr bool kHasHalves = true;

  /// A weight is factor * quant + least.
  struct Scale {
    float factor;
    float least;
  };

 protected:
  static constexpr unsigned k128 =
      0x43004300u;  // two times 128, where the last bit of a bf16 counts 1

  /// The low four bits of each half, plus `less`, which is negative.
  __device__ static unsigned nibbles(unsigned halves, unsigned less) {
    return add_pair(masked<0x000f000fu, k128>(halves), less);
  }
  /// Unpacks 4 bytes: low nibbles are columns of the first half, high nibbles of the second.
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
  /// A signed byte is its low seven bits minus 128 times its high bit. The low bits are added to
  /// 128; the high bit, placed as the last bit of an exponent, turns the -128 that is added again
  /// into -256.
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

template <TensorType kType, bool kInOrder>
constexpr auto weights_of() {
  if constexpr (kInOrder)
    return Bf16InOrder{};
  else if constexpr (kType == TensorType::e4m3)
    return E4m3{};
  else if constexpr (kType == TensorType::q8_0)
    return Q8_0{};
  else if constexpr (kType == TensorType::q4_0)
    return Q4_0{};
  else if constexpr (kType == TensorType::q4_1)
    return Q4_1{};
  else
    return Bf16{};
}
/// `kInOrder` is for bf16 only.
template <TensorType kType, bool kInOrder>
using WeightsOf = decltype(weights_of<kType, kInOrder>());

}  // namespace attacca::kernels::streamed
