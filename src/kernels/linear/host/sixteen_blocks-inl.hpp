// sixteen_blocks-inl.hpp: how formats-inl.hpp sees one block of each of 16 rows of weights, with
// vectors of 512 bits (AVX-512).
#include "kernels/linear/host/formats-inl.hpp"

#if defined(ATTACCA_SIXTEEN_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_SIXTEEN_BLOCKS_INL
#undef ATTACCA_SIXTEEN_BLOCKS_INL
#else
#define ATTACCA_SIXTEEN_BLOCKS_INL
#endif

#include <immintrin.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

using Floats16 = hn::Full512<float>;
using VFloats16 = hn::Vec<Floats16>;

inline constexpr unsigned kRows = 16;
inline constexpr unsigned kQuads = 4;  // of these rows

/// One block of each of four rows.
struct FourRows {
  Bytes at;
  std::size_t stride;
  HWY_INLINE FourRows operator+(unsigned offset) const { return {at + offset, stride}; }
};

/// 16 bytes of each row, side by side.
HWY_INLINE hn::Vec<hn::Full512<std::uint8_t>> octets_at(FourRows rows) {
  const hn::Full256<std::uint8_t> half;
  const Bytes at = rows.at;
  return hn::Combine(
      hn::Full512<std::uint8_t>(),
      hn::Combine(half, octets_at(at + 3 * rows.stride), octets_at(at + 2 * rows.stride)),
      hn::Combine(half, octets_at(at + rows.stride), octets_at(at)));
}

/// One block of each of 16 rows.
struct SixteenBlocks {
  Bytes at;
  std::size_t stride;
  HWY_INLINE FourRows quad(unsigned index) const { return {at + 4 * index * stride, stride}; }
};

/// From four words of 16 rows, four rows in each vector, one vector of rows for each word.
HWY_INLINE void transpose(__m512i (&words)[kQuads]) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
#pragma GCC unroll 4
  for (__m512i& quad : words) quad = _mm512_permutexvar_epi32(order, quad);
  const __m512i ab = _mm512_shuffle_i32x4(words[0], words[1], 0x44);
  const __m512i ce = _mm512_shuffle_i32x4(words[2], words[3], 0x44);
  const __m512i ab2 = _mm512_shuffle_i32x4(words[0], words[1], 0xee);
  const __m512i ce2 = _mm512_shuffle_i32x4(words[2], words[3], 0xee);
  words[0] = _mm512_shuffle_i32x4(ab, ce, 0x88);
  words[1] = _mm512_shuffle_i32x4(ab, ce, 0xdd);
  words[2] = _mm512_shuffle_i32x4(ab2, ce2, 0x88);
  words[3] = _mm512_shuffle_i32x4(ab2, ce2, 0xdd);
}

HWY_INLINE FourWords<Floats16> transposed(const SixteenBlocks& blocks, unsigned offset) {
  __m512i words[kQuads];
#pragma GCC unroll 4
  for (unsigned q = 0; q < kQuads; ++q) words[q] = octets_at(blocks.quad(q) + offset).raw;
  transpose(words);
  using V = hn::Vec<hn::Full512<std::uint32_t>>;
  return {{V{words[0]}, V{words[1]}, V{words[2]}, V{words[3]}}};
}

HWY_INLINE std::int32_t word_at(const void* at) {
  std::int32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

HWY_INLINE TwoFloats<Floats16> leading_halves(const SixteenBlocks& blocks) {
  __m128i quad[kQuads];
#pragma GCC unroll 4
  for (unsigned q = 0; q < kQuads; ++q) {
    const auto [at, stride] = blocks.quad(q);
    quad[q] = _mm_cvtsi32_si128(word_at(at));
    quad[q] = _mm_insert_epi32(quad[q], word_at(at + stride), 1);
    quad[q] = _mm_insert_epi32(quad[q], word_at(at + 2 * stride), 2);
    quad[q] = _mm_insert_epi32(quad[q], word_at(at + 3 * stride), 3);
  }
  const __m512i all = _mm512_inserti64x4(
      _mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(quad[0]), quad[1], 1)),
      _mm256_inserti128_si256(_mm256_castsi128_si256(quad[2]), quad[3], 1), 1);
  return {VFloats16{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(all))},
          VFloats16{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16)))}};
}

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
