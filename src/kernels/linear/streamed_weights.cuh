// streamed_weights.cuh: the types of weights that streamed_linear.cuh streams. Each says where a
// lane finds its 8 columns in the bytes of 32, and brings them into the form that is multiplied:
// four pairs of bf16, or two words of four bytes. Scales of 32 columns are applied to their sum of
// products; see streamed_multiply.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/matrix.hpp"

namespace attacca::kernels::streamed {

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
  static constexpr bool kIsHalf = false;      // x becomes f16; see streamed_multiply.cuh
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

/// f16 weights need no conversion either, but x does: it is multiplied as f16 too.
struct F16 : Bf16 {
  static constexpr TensorType kType = TensorType::f16;
  static constexpr bool kIsHalf = true;
};

/// e4m3 weights with one scale for each row. Their conversion takes longer than anything else that
/// consumers do, so it only moves bits: shifted into a bf16, the bits of an e4m3 are 2^-120 times
/// its value. x is multiplied by 2^64 and the sum by 2^56 instead, so that nothing in between is
/// too small.
struct E4m3 {
  static constexpr TensorType kType = TensorType::e4m3;
  static constexpr bool kIsQuantized = false;
  static constexpr unsigned kTileRows = 16;
  static constexpr bool kHasRowScales = true;
  static constexpr float kRowScale = 0x1p56f;
  static constexpr bool kIsHalf = false;
  static constexpr bool kInOrder = false;
  static constexpr bool kHasHalves = false;
  static constexpr unsigned kHead = 0;
  static constexpr unsigned kLaneBytes = 8;
  static constexpr unsigned kPadding = 32;  // lanes of four rows reach all banks

  /// Columns 0 and 2, 1 and 3, 4 and 6, 5 and 7: each pair is in place but for a shift.
  __device__ static uint4 pairs(const unsigned char* at) {
    const uint2 bytes = load<uint2>(at);
    const uint2 low = pairs_of(bytes.x), high = pairs_of(bytes.y);
    return {low.x, low.y, high.x, high.y};
  }
  /// Bytes 0 and 2 of a word, and 1 and 3, times 2^-120.
  __device__ static uint2 pairs_of(unsigned word) {
    const unsigned signs = signs_of(word);
    return {pair(word << 4, signs << 8), pair(word >> 4, signs)};
  }
  /// The same columns of x, times 2^64. Norms need the squares of x, so x is far below 2^63.
  __device__ static uint4 arranged(const uint4& x) {
    constexpr unsigned kScale = 0x5f805f80u;
    return {multiply_pair(__byte_perm(x.x, x.y, 0x5410), kScale),
            multiply_pair(__byte_perm(x.x, x.y, 0x7632), kScale),
            multiply_pair(__byte_perm(x.z, x.w, 0x5410), kScale),
            multiply_pair(__byte_perm(x.z, x.w, 0x7632), kScale)};
  }

 private:
  /// In assembly, or nvcc would shift first and then mask each word that comes of it.
  __device__ static unsigned signs_of(unsigned word) {
    unsigned result;
    asm("and.b32 %0, %1, 0x80808080;" : "=r"(result) : "r"(word));
    return result;
  }
  /// Exponents and mantissas of one word, all other bits of the other, in one instruction.
  __device__ static unsigned pair(unsigned magnitudes, unsigned signs) {
    unsigned result;
    asm("lop3.b32 %0, %1, %2, %3, 0xe2;"
        : "=r"(result)
        : "r"(magnitudes), "n"(0x07f007f0), "r"(signs));
    return result;
  }
};

/// GGUF blocks of 32 columns, of which a lane has 4 of each half, so that lanes of eight rows reach
/// all banks. Rows are a multiple of 2 or 4 bytes long, and so are the words that are read.
struct Quants {
  static constexpr bool kIsQuantized = true;
  static constexpr unsigned kTileRows = 16;
  static constexpr bool kHasRowScales = false;
  static constexpr unsigned kLaneBytes = 4;
  // Bytes after each row. Copies begin at multiples of 16 bytes, so up to 16 bytes before a row are
  // copied too. An odd number of 16 bytes from row to row also avoids bank conflicts.
  static constexpr unsigned kPadding = 16;
  static constexpr bool kIsHalf = false;
  static constexpr bool kInOrder = false;
  static constexpr bool kHasHalves = true;

  /// A weight is factor * quant + least.
  struct Scale {
    float factor;
    float least;
  };

 protected:
  /// Four bytes that lie at a multiple of two.
  __device__ static unsigned word(const unsigned char* at) {
    return __byte_perm(load<std::uint16_t>(at), load<std::uint16_t>(at + 2), 0x5410);
  }
  /// Low nibbles are columns of the first half, high nibbles of the second.
  __device__ static uint2 nibbles(unsigned word) {
    return {word & 0x0f0f0f0fu, word >> 4 & 0x0f0f0f0fu};
  }
  __device__ static float number(const unsigned char* at) { return __half2float(load<__half>(at)); }
};

struct Q8_0 : Quants {
  static constexpr TensorType kType = TensorType::q8_0;
  static constexpr bool kHasLeast = false;
  static constexpr unsigned kHead = 2;

  __device__ static uint2 quants(const unsigned char* at) { return {word(at), word(at + 16)}; }
  __device__ static Scale scale(const unsigned char* block) { return {number(block), 0}; }
};

struct Q4_0 : Quants {
  static constexpr TensorType kType = TensorType::q4_0;
  static constexpr bool kHasLeast = true;
  static constexpr unsigned kHead = 2;

  __device__ static uint2 quants(const unsigned char* at) { return nibbles(word(at)); }
  __device__ static Scale scale(const unsigned char* block) {
    const float factor = number(block);
    return {factor, -8 * factor};
  }
};

struct Q4_1 : Quants {
  static constexpr TensorType kType = TensorType::q4_1;
  static constexpr bool kHasLeast = true;
  static constexpr unsigned kHead = 4;

  __device__ static uint2 quants(const unsigned char* at) { return nibbles(load<unsigned>(at)); }
  __device__ static Scale scale(const unsigned char* block) {
    const float2 both = __half22float2(load<__half2>(block));
    return {both.x, both.y};
  }
};

template <TensorType kType, bool kInOrder>
constexpr auto weights_of() {
  if constexpr (kInOrder)
    return Bf16InOrder{};
  else if constexpr (kType == TensorType::f16)
    return F16{};
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

/// Bytes of some columns of a row.
template <class Weights>
__device__ constexpr unsigned bytes_of(unsigned columns) {
  return static_cast<unsigned>(row_bytes(Weights::kType, columns));
}

}  // namespace attacca::kernels::streamed
