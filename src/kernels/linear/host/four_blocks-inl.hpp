// four_blocks-inl.hpp: how formats-inl.hpp sees one block of each of four rows of weights, with
// vectors of 128 bits. Included once for each Highway target.
#include "kernels/linear/host/formats-inl.hpp"
#include "kernels/linear/host/integer_tiles.hpp"

#if defined(ATTACCA_FOUR_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_FOUR_BLOCKS_INL
#undef ATTACCA_FOUR_BLOCKS_INL
#else
#define ATTACCA_FOUR_BLOCKS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

using Words = hn::Full128<std::uint32_t>;
using Floats = hn::Full128<float>;
using VWords = hn::Vec<Words>;
using VFloats = hn::Vec<Floats>;
using VInts = hn::Vec<hn::Full128<std::int32_t>>;
using VSigned = hn::Vec<hn::Full128<std::int8_t>>;

inline constexpr unsigned kTileRows = 4;

/// Four blocks, one of each row. A quad of rows, as many_blocks-inl.hpp has them, is one row here.
struct Blocks {
  Bytes at[kTileRows];
  std::size_t stride;

  HWY_INLINE Blocks(const IntegerTile& tile, std::uint32_t row)
      : stride(row_bytes(tile.w.type, tile.w.columns)) {
    for (unsigned r = 0; r < kTileRows; ++r) {
      // Past the last row, that row is computed again and not used.
      const std::uint32_t index = row + r < tile.rows ? row + r : tile.rows - 1;
      at[r] = static_cast<Bytes>(tile.w.row(tile.first + index));
    }
  }
  HWY_INLINE Bytes quad(unsigned index) const { return at[index]; }
  HWY_INLINE Bytes following_rows() const { return at[0] + kTileRows * stride; }
  HWY_INLINE void advance(unsigned bytes) {
#pragma GCC unroll 8
    for (Bytes& pointer : at) pointer += bytes;
  }
  HWY_INLINE VWords words(unsigned row, unsigned offset) const {
    return hn::BitCast(Words(), octets_at(at[row] + offset));
  }
  HWY_INLINE hn::Vec<hn::Full64<std::uint16_t>> halves(unsigned row) const {
    return hn::BitCast(hn::Full64<std::uint16_t>(), hn::LoadU(hn::Full64<std::uint8_t>(), at[row]));
  }
};

HWY_INLINE FourWords<Floats> transposed(const Blocks& blocks, unsigned offset) {
  const Words d;
  const VWords a = blocks.words(0, offset), b = blocks.words(1, offset);
  const VWords c = blocks.words(2, offset), e = blocks.words(3, offset);
  const VWords ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
  const VWords ac2 = hn::InterleaveUpper(d, a, c), be2 = hn::InterleaveUpper(d, b, e);
  return {{hn::InterleaveLower(d, ac, be), hn::InterleaveUpper(d, ac, be),
           hn::InterleaveLower(d, ac2, be2), hn::InterleaveUpper(d, ac2, be2)}};
}

/// Reads are short because one that crosses cache lines costs a Neoverse N1 four cycles.
HWY_INLINE TwoFloats<Floats> leading_halves(const Blocks& blocks) {
  const hn::Full64<std::uint16_t> d;
  const hn::Full64<std::uint32_t> pairs;
  const auto ab = hn::InterleaveLower(d, blocks.halves(0), blocks.halves(1));
  const auto ce = hn::InterleaveLower(d, blocks.halves(2), blocks.halves(3));
  const auto first = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  const auto second = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  return {float_of_halves(Floats(), hn::BitCast(d, first)),
          float_of_halves(Floats(), hn::BitCast(d, second))};
}

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
