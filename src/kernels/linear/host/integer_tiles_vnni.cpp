// integer_tiles_vnni.cpp: the path of integer_tiles.hpp for x86-64 processors with byte dot
// products of 512 bits (AVX-512 VNNI). VPDPBUSD adds the products of four columns of 16 rows. It
// takes unsigned weights and signed x. A 16-bit x is 256 * high + low in signed bytes, so two of
// them give the same exact integers. Signed weights get 128 more, and 128 times the sum of x is
// subtracted.
#include "kernels/linear/host/integer_tiles.hpp"

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_AVX3
#define HWY_COMPILE_ONLY_STATIC
#include "kernels/host/simd.hpp"

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "kernels/linear/host/joined-inl.hpp"
#include "kernels/linear/host/sixteen_blocks-inl.hpp"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

inline constexpr unsigned kTileCount = 8;  // rows of x, multiplied together

struct alignas(16) SplitBlock {
  float scale;
  float sum;
  std::int32_t sums[2];  // of 16 columns each
  std::int8_t high[32];
  std::int8_t low[32];
};
static_assert(sizeof(SplitBlock) == kPreparedBytes);

/// 32 columns of 16 weight rows, unpacked: four columns of each row side by side.
struct PanelGroup {
  unsigned char values[8][64];
  float scale[2][kRows];
  float offset[kRows];
};
static_assert(sizeof(PanelGroup) <= panel_bytes(32));

/// The weights that are signed: those without an offset.
template <class ShapeOf>
inline constexpr bool is_signed = !ShapeOf::kHasOffset;

/// 32 columns of 16 rows, four rows in each vector, as unsigned bytes.
struct Weights {
  __m512i half[2][kQuads];
};

template <class Format, unsigned part>
HWY_INLINE Weights weights_at(const SixteenBlocks& blocks, unsigned turn) {
  Weights w;
  const __m512i more = _mm512_set1_epi8(is_signed<typename Format::ShapeOf> ? -128 : 0);
#pragma GCC unroll 4
  for (unsigned quad = 0; quad < kQuads; ++quad) {
    const auto values = Format::template values<part>(blocks.quad(quad), turn);
    w.half[0][quad] = _mm512_xor_si512(values.first.raw, more);
    w.half[1][quad] = _mm512_xor_si512(values.second.raw, more);
  }
  return w;
}

/// 16 sums of products in float, with the scales of weights and x.
template <class ShapeOf>
HWY_INLINE VFloats16 add_products(VFloats16 sum, const __m512i (&products)[ShapeOf::kGroups],
                                  const VFloats16* scale, VFloats16 offset, const SplitBlock& x) {
  const Floats16 d;
#pragma GCC unroll 2
  for (unsigned group = 0; group < ShapeOf::kGroups; ++group) {
    __m512i exact = products[group];
    if constexpr (is_signed<ShapeOf>) {
      const std::int32_t sum_of_x = ShapeOf::kGroups == 2 ? x.sums[group] : x.sums[0] + x.sums[1];
      exact = _mm512_sub_epi32(exact, _mm512_set1_epi32(128 * sum_of_x));
    }
    sum = hn::MulAdd(VFloats16{_mm512_cvtepi32_ps(exact)},
                     hn::Mul(scale[group], hn::Set(d, x.scale)), sum);
  }
  if constexpr (ShapeOf::kHasOffset) sum = hn::MulAdd(offset, hn::Set(d, x.sum), sum);
  return sum;
}

/// 16 columns of x for four rows.
HWY_INLINE __m512i sixteen_columns(const std::int8_t* at) {
  return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
}

/// Sums of the products in halves [first, last) of 16 columns, one row in each lane. At most 2^28.
template <unsigned first, unsigned last>
HWY_INLINE __m512i products(const Weights& w, const SplitBlock& x) {
  __m512i sum[kQuads];
#pragma GCC unroll 4
  for (__m512i& s : sum) s = _mm512_setzero_si512();
#pragma GCC unroll 2
  for (unsigned half = first; half < last; ++half)
#pragma GCC unroll 4
    for (unsigned quad = 0; quad < kQuads; ++quad)
      sum[quad] =
          _mm512_dpbusd_epi32(sum[quad], w.half[half][quad], sixteen_columns(x.high + 16 * half));
#pragma GCC unroll 4
  for (__m512i& s : sum) s = _mm512_slli_epi32(s, 8);
#pragma GCC unroll 2
  for (unsigned half = first; half < last; ++half)
#pragma GCC unroll 4
    for (unsigned quad = 0; quad < kQuads; ++quad)
      sum[quad] =
          _mm512_dpbusd_epi32(sum[quad], w.half[half][quad], sixteen_columns(x.low + 16 * half));
  const __m512i two = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[0], sum[1]),
                                       _mm512_unpackhi_epi32(sum[0], sum[1]));
  const __m512i others = _mm512_add_epi32(_mm512_unpacklo_epi32(sum[2], sum[3]),
                                          _mm512_unpackhi_epi32(sum[2], sum[3]));
  const __m512i all =
      _mm512_add_epi32(_mm512_unpacklo_epi64(two, others), _mm512_unpackhi_epi64(two, others));
  // Row r of each quad is in its 128 bits.
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), all);
}

/// Calls use.part for each 32 columns of one turn through 16 blocks.
template <class Format, unsigned part = 0, class Use>
HWY_INLINE void for_each_part(const SixteenBlocks& blocks, const Scales<Format, Floats16>& scales,
                              unsigned turn, Use& use) {
  if constexpr (part < Format::kParts) {
    const unsigned at = turn * Format::kParts + part;
    use.part(weights_at<Format, part>(blocks, turn), &scales.scale[at * Format::kGroups],
             scales.offset[at]);
    for_each_part<Format, part + 1>(blocks, scales, turn, use);
  }
}

/// Calls `use` for all columns of 16 rows of weights, and use.end behind each section of them.
template <class Format, class Use>
HWY_INLINE void for_each_block(SixteenBlocks blocks, const IntegerTile& tile, Use& use) {
  const std::uint32_t blocks_of_section = tile.w.columns / Format::kElements / tile.sections;
  // Prefetches the following 16 rows.
  Bytes ahead = blocks.at + kRows * blocks.stride;
  for (std::uint32_t section = 0; section < tile.sections; ++section) {
    for (std::uint32_t left = blocks_of_section; left != 0; --left) {
      for (unsigned line = 0; line < kRows * Format::kBytes; line += 64)
        hwy::Prefetch(ahead + line);
      ahead += kRows * Format::kBytes;
      Scales<Format, Floats16> scales;
      Format::scales(blocks, scales);
      for (unsigned turn = 0; turn < Format::kElements / 32 / Format::kParts; ++turn)
        for_each_part<Format>(blocks, scales, turn, use);
      blocks.at += Format::kBytes;
    }
    use.end();
  }
}

/// Multiplies weights as they are read.
template <class Format, unsigned count>
struct Direct {
  const SplitBlock* x;
  std::size_t stride;
  Joined<Floats16, count> joined;
  std::uint32_t section = 0;
  VFloats16 sum[count];

  HWY_INLINE Direct(const IntegerTile& tile, float* out)
      : x(static_cast<const SplitBlock*>(tile.x)), stride(tile.w.columns / 32), joined(tile, out) {
#pragma GCC unroll 8
    for (VFloats16& s : sum) s = hn::Zero(Floats16());
  }
  HWY_INLINE void part(const Weights& w, const VFloats16* scale, VFloats16 offset) {
    using ShapeOf = typename Format::ShapeOf;
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i) {
      const SplitBlock& block = x[i * stride];
      __m512i exact[ShapeOf::kGroups];
      if constexpr (ShapeOf::kGroups == 1) {
        exact[0] = products<0, 2>(w, block);
      } else {
        exact[0] = products<0, 1>(w, block);
        exact[1] = products<1, 2>(w, block);
      }
      sum[i] = add_products<ShapeOf>(sum[i], exact, scale, offset, block);
    }
    ++x;
  }
  HWY_INLINE void end() { joined.take(section++, sum); }
};

/// Writes a panel.
template <class Format>
struct Unpack {
  PanelGroup* to;

  HWY_INLINE void part(Weights w, const VFloats16* scale, VFloats16 offset) {
    const Floats16 d;
#pragma GCC unroll 2
    for (unsigned half = 0; half < 2; ++half) {
      transpose(w.half[half]);
#pragma GCC unroll 4
      for (unsigned word = 0; word < 4; ++word)
        _mm512_storeu_si512(to->values[4 * half + word], w.half[half][word]);
    }
#pragma GCC unroll 2
    for (unsigned group = 0; group < Format::kGroups; ++group)
      hn::StoreU(scale[group], d, to->scale[group]);
    if constexpr (Format::kHasOffset) hn::StoreU(offset, d, to->offset);
    ++to;
  }
  HWY_INLINE void end() {}
};

template <class Format, unsigned count>
HWY_NOINLINE void multiply_few(const SixteenBlocks& blocks, const IntegerTile& tile, float* out) {
  Direct<Format, count> direct(tile, out);
  for_each_block<Format>(blocks, tile, direct);
}

/// Four columns of x for all rows.
HWY_INLINE __m512i four_columns(const std::int8_t* at) { return _mm512_set1_epi32(word_at(at)); }

template <class ShapeOf, unsigned count>
HWY_NOINLINE void multiply_panel(const PanelGroup* panel, const IntegerTile& tile,
                                 const SplitBlock* x, float* out) {
  const Floats16 d;
  const std::size_t groups = tile.w.columns / 32;
  constexpr unsigned kWords = 8 / ShapeOf::kGroups;  // of four columns, with one scale
  Joined<Floats16, count> joined(tile, out);
  VFloats16 sum[count];
#pragma GCC unroll 8
  for (VFloats16& s : sum) s = hn::Zero(d);
  for (std::uint32_t section = 0; section < tile.sections; ++section) {
    for (const PanelGroup* end = panel + groups / tile.sections; panel != end; ++panel, ++x) {
      __m512i exact[count][ShapeOf::kGroups];
#pragma GCC unroll 2
      for (unsigned group = 0; group < ShapeOf::kGroups; ++group) {
        __m512i high[count];
        __m512i low[count];
#pragma GCC unroll 8
        for (unsigned i = 0; i < count; ++i) high[i] = low[i] = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (unsigned word = group * kWords; word < (group + 1) * kWords; ++word) {
          const __m512i w = _mm512_loadu_si512(panel->values[word]);
#pragma GCC unroll 8
          for (unsigned i = 0; i < count; ++i) {
            const SplitBlock& block = x[i * groups];
            high[i] = _mm512_dpbusd_epi32(high[i], w, four_columns(block.high + 4 * word));
            low[i] = _mm512_dpbusd_epi32(low[i], w, four_columns(block.low + 4 * word));
          }
        }
#pragma GCC unroll 8
        for (unsigned i = 0; i < count; ++i)
          exact[i][group] = _mm512_add_epi32(_mm512_slli_epi32(high[i], 8), low[i]);
      }
      VFloats16 scale[ShapeOf::kGroups];
#pragma GCC unroll 2
      for (unsigned group = 0; group < ShapeOf::kGroups; ++group)
        scale[group] = hn::LoadU(d, panel->scale[group]);
      VFloats16 offset = hn::Zero(d);
      if constexpr (ShapeOf::kHasOffset) offset = hn::LoadU(d, panel->offset);
#pragma GCC unroll 8
      for (unsigned i = 0; i < count; ++i)
        sum[i] = add_products<ShapeOf>(sum[i], exact[i], scale, offset, x[i * groups]);
    }
    joined.take(section, sum);
  }
}

/// From row `i` of x on, `most` rows at a time, then half as many.
template <class ShapeOf, unsigned most = kTileCount>
void multiply_rows(const PanelGroup* panel, const IntegerTile& tile, std::uint32_t i, float* out) {
  const std::size_t groups = tile.w.columns / 32;
  const SplitBlock* x = static_cast<const SplitBlock*>(tile.x);
  for (; i + most <= tile.count; i += most)
    multiply_panel<ShapeOf, most>(panel, tile, x + i * groups, out + i * kTileOutputs);
  if constexpr (most > 1) multiply_rows<ShapeOf, most / 2>(panel, tile, i, out);
}

template <class Format>
HWY_NOINLINE void multiply_many(const SixteenBlocks& blocks, const IntegerTile& tile, float* out) {
  PanelGroup* panel = reinterpret_cast<PanelGroup*>(tile.panel);
  Unpack<Format> unpack{panel};
  for_each_block<Format>(blocks, tile, unpack);
  multiply_rows<typename Format::ShapeOf>(panel, tile, 0, out);
}

template <class Format>
void multiply_format(const IntegerTile& tile) {
  const std::size_t stride = row_bytes(tile.w.type, tile.w.columns);
  for (std::uint32_t row = 0; row < tile.rows; row += kRows) {
    SixteenBlocks blocks{static_cast<Bytes>(tile.w.row(tile.first + row)), stride};
    thread_local std::vector<unsigned char> last;
    if (const std::uint32_t left = tile.rows - row; left < kRows) {
      // Behind the last row the copy holds anything, and the results are not used.
      last.resize(kRows * stride);
      blocks.at = std::copy_n(blocks.at, left * stride, last.data()) - left * stride;
    }
    float* out = tile.out + row;
    switch (tile.count) {
      case 1:
        multiply_few<Format, 1>(blocks, tile, out);
        break;
      case 2:
        multiply_few<Format, 2>(blocks, tile, out);
        break;
      default:
        multiply_many<Format>(blocks, tile, out);
    }
  }
}

struct Multiply {
  const IntegerTile& tile;
  template <class Format>
  void in() const {
    multiply_format<Format>(tile);
  }
};

void multiply(const IntegerTile& tile) { with_format(tile.w.type, Multiply{tile}); }

void split(const RowBlock* x, std::size_t count, std::byte* to_bytes) {
  SplitBlock* y = reinterpret_cast<SplitBlock*>(to_bytes);
  for (const RowBlock* end = x + count; x != end; ++x, ++y) {
    y->scale = x->scale;
    y->sum = x->sum;
    const __m512i values = _mm512_loadu_si512(x->values);
    const __m512i pairs = _mm512_madd_epi16(values, _mm512_set1_epi16(1));
    y->sums[0] = _mm512_mask_reduce_add_epi32(0x00ff, pairs);
    y->sums[1] = _mm512_mask_reduce_add_epi32(0xff00, pairs);
    // The nearest multiple of 256, so that the remainder is a signed byte.
    const __m512i high = _mm512_srai_epi16(_mm512_add_epi16(values, _mm512_set1_epi16(128)), 8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y->high), _mm512_cvtepi16_epi8(high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y->low), _mm512_cvtepi16_epi8(values));
  }
}

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_POP_ATTRIBUTES

namespace attacca::kernels::host {

const IntegerPath* vnni_path() {
  static constexpr IntegerPath kPath{"vnni", &HWY_NAMESPACE::split, &HWY_NAMESPACE::multiply};
  static const bool is_here =
      (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512vnni");
  return is_here ? &kPath : nullptr;
}

}  // namespace attacca::kernels::host

#else

namespace attacca::kernels::host {
const IntegerPath* vnni_path() { return nullptr; }
}  // namespace attacca::kernels::host

#endif
