// attention_ptx.cuh: stands in for the file of this name in src/, whose PTX it computes in C++. As
// on tensor cores, the sum of a product does not depend on which operand comes first.
#pragma once

#include "emulated/cuda_threads.hpp"
#include "kernels/quantization.hpp"

namespace attacca::kernels::attending {

namespace emulated = attacca::test::emulated;

template <bool kIsBfloat>
std::uint32_t pair_of(float low, float high) {
  const auto round = [](float x) { return kIsBfloat ? bfloat_of_float(x) : half_of_float(x); };
  return round(low) | static_cast<std::uint32_t>(round(high)) << 16;
}
template <bool kIsBfloat>
float2 floats_of(std::uint32_t pair) {
  const auto expand = [](std::uint32_t bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    return kIsBfloat ? float_of_bfloat(half) : float_of_half(half);
  };
  return {expand(pair), expand(pair >> 16)};
}

/// Lane l holds rows l / 4 and l / 4 + 8 of a, row l / 4 of b's columns, and of c rows l / 4 and
/// l / 4 + 8 in columns l % 4 * 2 and the next.
template <bool kIsBfloat>
void mma(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
         std::uint32_t b0, std::uint32_t b1) {
  const auto two = [](std::uint32_t low, std::uint32_t high) {
    return low | std::uint64_t{high} << 32;
  };
  const auto& all = emulated::Block::now().meet({two(a0, a1), two(a2, a3), two(b0, b1)});
  const auto pair = [&](unsigned lane, unsigned word) {
    return floats_of<kIsBfloat>(static_cast<std::uint32_t>(all[lane][word / 2] >> 32 * (word % 2)));
  };
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    double sum = 0;
    for (unsigned k = 0; k < 16; k += 2) {
      const float2 a = pair(lane / 4 * 4 + k % 8 / 2, i / 2 + k / 8 * 2);
      const float2 b = pair((lane % 4 * 2 + i % 2) * 4 + k % 8 / 2, 4 + k / 8);
      sum += static_cast<double>(a.x) * b.x + static_cast<double>(a.y) * b.y;
    }
    c[i] = static_cast<float>(sum + c[i]);
  }
}

template <bool kIsBfloat>
void mma_first(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
               std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  for (float& each : c) each = 0;
  mma<kIsBfloat>(c, a0, a1, a2, a3, b0, b1);
}

inline std::uint32_t lowest_bit(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__builtin_ctz(bits));
}
inline std::uint32_t count_bits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__builtin_popcount(bits));
}
inline float fast_exp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0 : y;
}

inline void load_once(const void* from, bool is_there, std::uint32_t& a, std::uint32_t& b) {
  std::uint32_t words[2] = {};
  if (is_there) std::memcpy(words, from, sizeof words);
  a = words[0];
  b = words[1];
}
inline void load_once(const void* from, bool is_there, std::uint32_t& a, std::uint32_t& b,
                      std::uint32_t& c, std::uint32_t& d) {
  load_once(from, is_there, a, b);
  load_once(static_cast<const unsigned char*>(from) + 8, is_there, c, d);
}

inline std::uint32_t halves_of_fp8(std::uint16_t pair) {
  return pair_of<false>(float_of_e4m3(static_cast<std::uint8_t>(pair)),
                        float_of_e4m3(static_cast<std::uint8_t>(pair >> 8)));
}
inline std::uint16_t fp8_pair_of(float low, float high) {
  return static_cast<std::uint16_t>(e4m3_of_float(low) | e4m3_of_float(high) << 8);
}

inline std::uint32_t transposed(std::uint32_t pair) {
  const auto& all = emulated::Block::now().meet({pair});
  const unsigned lane = threadIdx.x % 32;
  const auto at = [&](unsigned row) {
    return static_cast<std::uint32_t>(all[row * 4 + lane / 8][0] >> 16 * (lane / 4 % 2) & 0xffff);
  };
  return at(lane % 4 * 2) | at(lane % 4 * 2 + 1) << 16;
}
template <bool kTransposes>
void load_matrices(const void* row, std::uint32_t (&to)[4]) {
  const auto& all = emulated::Block::now().meet({reinterpret_cast<std::uintptr_t>(row)});
  const unsigned lane = threadIdx.x % 32;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const auto at = [&](unsigned i, unsigned j) {
      const auto address = static_cast<std::uintptr_t>(all[matrix * 8 + (kTransposes ? j : i)][0]);
      return std::uint32_t{reinterpret_cast<const std::uint16_t*>(address)[kTransposes ? i : j]};
    };
    to[matrix] = at(lane / 4, lane % 4 * 2) | at(lane / 4, lane % 4 * 2 + 1) << 16;
  }
}
inline void ldmatrix(const void* row, std::uint32_t (&to)[4]) { load_matrices<false>(row, to); }
inline void ldmatrix_transposed(const void* row, std::uint32_t (&to)[4]) {
  load_matrices<true>(row, to);
}

/// Copies happen when a thread waits for them.
inline void cp_async(void* to, const void* from, bool is_there) {
  emulated::Later::copies().add([=] {
    if (is_there)
      std::memcpy(to, from, 16);
    else
      std::memset(to, 0, 16);
  });
}
inline void cp_async_commit() { emulated::Later::copies().commit(); }
template <unsigned kNewest>
void cp_async_wait() {
  emulated::Later::copies().wait(kNewest);
}

inline std::uint32_t atomic_inc_relaxed(std::uint32_t* counter, std::uint32_t last) {
  const std::uint32_t before = *counter;
  *counter = before >= last ? 0 : before + 1;
  return before;
}
inline std::uint32_t atomic_inc_acq_rel(std::uint32_t* counter, std::uint32_t last) {
  return atomic_inc_relaxed(counter, last);
}

}  // namespace attacca::kernels::attending
