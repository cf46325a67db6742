// many_blocks-inl.hpp: how formats-inl.hpp sees one block of each of 8 or 16 rows of weights on
// x86-64, with vectors of 256 or 512 bits: a row for each lane of 32 bits. Included once for each
// Highway target.
#include "kernels/linear/host/formats-inl.hpp"

#if defined(ATTACCA_MANY_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_MANY_BLOCKS_INL
#undef ATTACCA_MANY_BLOCKS_INL
#else
#define ATTACCA_MANY_BLOCKS_INL
#endif

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/linear/host/integer_tiles.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using WordPairs = hn::RepartitionToWide<Words>;
using Octets = hn::Repartition<std::uint8_t, Floats>;
using VFloats = hn::Vec<Floats>;
using VInts = hn::Vec<Ints>;
using VWords = hn::Vec<Words>;
using VSigned = hn::Vec<hn::RebindToSigned<Octets>>;

inline constexpr unsigned kTileRows = HWY_LANES(float);
inline constexpr unsigned kQuadRows = kTileRows / 4;

/// One block of each row of a quad. Quad q has the rows q, q + 4 and so on: then no work on four
/// quads crosses 128 bits.
struct Quad {
  Bytes at;
  std::size_t stride;  // of rows
  HWY_INLINE Quad operator+(unsigned offset) const { return {at + offset, stride}; }
  HWY_INLINE Bytes row(unsigned index) const { return at + 4 * index * stride; }
};

/// Vectors of 128 bits, side by side.
template <class D, class Part>
HWY_INLINE hn::Vec<D> side_by_side(D d, Part part) {
  const hn::Half<D> half;
  if constexpr (kQuadRows == 2)
    return hn::Combine(d, part(1), part(0));
  else
    return hn::Combine(d, hn::Combine(half, part(3), part(2)), hn::Combine(half, part(1), part(0)));
}

/// 16 bytes of each row.
HWY_INLINE hn::Vec<Octets> octets_at(Quad quad) {
  return side_by_side(Octets(), [&](unsigned row) HWY_ATTR { return octets_at(quad.row(row)); });
}

/// One block of each of kTileRows rows.
struct Blocks {
  Bytes at;
  std::size_t stride;

  HWY_INLINE Blocks(const IntegerTile& tile, std::uint32_t row)
      : at(static_cast<Bytes>(tile.w.row(tile.first + row))),
        stride(row_bytes(tile.w.type, tile.w.columns)) {
    if (const std::uint32_t left = tile.rows - row; left < kTileRows) {
      // Behind the last row the copy holds anything, and the results are not used.
      thread_local std::vector<unsigned char> last;
      last.resize(kTileRows * stride);
      at = std::copy_n(at, left * stride, last.data()) - left * stride;
    }
  }
  HWY_INLINE Quad quad(unsigned index) const { return {at + index * stride, stride}; }
  HWY_INLINE Bytes following_rows() const { return at + kTileRows * stride; }
  HWY_INLINE void advance(unsigned bytes) { at += bytes; }
};

/// 32 columns of four quads as bytes, 16 in each half.
struct Bytes32 {
  HWY_INLINE Bytes32() {}  // one that the compiler makes would not be for this target
  HWY_INLINE explicit Bytes32(const Values<VSigned> (&values)[4]) {
#pragma GCC unroll 4
    for (unsigned quad = 0; quad < 4; ++quad) {
      half[0][quad] = hn::BitCast(Words(), values[quad].first);
      half[1][quad] = hn::BitCast(Words(), values[quad].second);
    }
  }
  VWords half[2][4];
};

HWY_INLINE VWords lower_pairs(VWords a, VWords b) {
  const WordPairs d;
  return hn::BitCast(Words(), hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}
HWY_INLINE VWords upper_pairs(VWords a, VWords b) {
  const WordPairs d;
  return hn::BitCast(Words(), hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

/// From four words of each row, a quad in each vector, one vector of all rows for each word.
HWY_INLINE void transpose(VWords (&words)[4]) {
  const Words d;
  const VWords ab = hn::InterleaveLower(d, words[0], words[1]);
  const VWords ce = hn::InterleaveLower(d, words[2], words[3]);
  const VWords ab2 = hn::InterleaveUpper(d, words[0], words[1]);
  const VWords ce2 = hn::InterleaveUpper(d, words[2], words[3]);
  words[0] = lower_pairs(ab, ce);
  words[1] = upper_pairs(ab, ce);
  words[2] = lower_pairs(ab2, ce2);
  words[3] = upper_pairs(ab2, ce2);
}

/// The sum of each row's four lanes, from a quad in each vector.
HWY_INLINE VInts row_sums(const VInts (&quads)[4]) {
  const Ints d;
  const VWords ab = hn::BitCast(Words(), hn::Add(hn::InterleaveLower(d, quads[0], quads[1]),
                                                 hn::InterleaveUpper(d, quads[0], quads[1])));
  const VWords ce = hn::BitCast(Words(), hn::Add(hn::InterleaveLower(d, quads[2], quads[3]),
                                                 hn::InterleaveUpper(d, quads[2], quads[3])));
  return hn::BitCast(d, hn::Add(lower_pairs(ab, ce), upper_pairs(ab, ce)));
}

HWY_INLINE FourWords<Floats> transposed(const Blocks& blocks, unsigned offset) {
  VWords words[4];
#pragma GCC unroll 4
  for (unsigned q = 0; q < 4; ++q)
    words[q] = hn::BitCast(Words(), octets_at(blocks.quad(q) + offset));
  transpose(words);
  return {{words[0], words[1], words[2], words[3]}};
}

HWY_INLINE std::int32_t word_at(const void* at) {
  std::int32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

HWY_INLINE TwoFloats<Floats> leading_halves(const Blocks& blocks) {
  const auto word = [&](unsigned quad, unsigned row) HWY_ATTR {
    Quad rows = blocks.quad(quad);
    // Hides how the pointers to quads differ: else g++ holds more sums of them than registers.
    asm("" : "+r"(rows.at));
    return word_at(rows.row(row));
  };
  const VWords all = side_by_side(Words(), [&](unsigned row) HWY_ATTR {
    return hn::Vec<hn::Full128<std::uint32_t>>{
        _mm_setr_epi32(word(0, row), word(1, row), word(2, row), word(3, row))};
  });
  const auto halves = [](VWords bits) HWY_ATTR {
    return float_of_halves(Floats(), hn::TruncateTo(hn::Rebind<std::uint16_t, Floats>(), bits));
  };
  return {halves(all), halves(hn::ShiftRight<16>(all))};
}

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
