// formats-inl.hpp: decodes the quantized tensor types, four rows of weights at a time. Each format
// gives
//  scales   the scales and offsets of one block of four rows, one row in each lane
//  values   32 columns of one row as signed bytes, the integers q of quantization.hpp: part `part`
//           of turn `turn`. All turns through a block run the same code, kParts each.
// Included once for each Highway target. The products are in integer_tiles-inl.hpp.
#include "kernels/host/simd.hpp"

#include <hwy/highway.h>

#include "kernels/quantization.hpp"

#if defined(ATTACCA_FORMATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_FORMATS_INL
#undef ATTACCA_FORMATS_INL
#else
#define ATTACCA_FORMATS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {  // no symbol is shared with a file built for another processor

namespace hn = hwy::HWY_NAMESPACE;
using quantization::Bytes;

using Words = hn::Full128<std::uint32_t>;
using Floats = hn::Full128<float>;
using Octets = hn::Full128<std::uint8_t>;
using SignedOctets = hn::Full128<std::int8_t>;
using VWords = hn::Vec<Words>;
using VFloats = hn::Vec<Floats>;
using VInts = hn::Vec<hn::Full128<std::int32_t>>;
using VOctets = hn::Vec<Octets>;
using VSigned = hn::Vec<SignedOctets>;

inline constexpr unsigned kTileRows = 4;

/// 32 columns of one row.
struct Values {
  VSigned first;
  VSigned second;
};

/// Four blocks, one of each row.
struct FourBlocks {
  Bytes at[kTileRows];
  HWY_INLINE VWords words(unsigned row, unsigned offset) const {
    return hn::BitCast(Words(), hn::LoadU(Octets(), at[row] + offset));
  }
  HWY_INLINE hn::Vec<hn::Full64<std::uint16_t>> halves(unsigned row) const {
    return hn::BitCast(hn::Full64<std::uint16_t>(), hn::LoadU(hn::Full64<std::uint8_t>(), at[row]));
  }
};

struct FourWords {
  VWords word[4];
};

/// Words 0 to 3 from `offset` on, one row in each lane.
HWY_INLINE FourWords transposed(const FourBlocks& blocks, unsigned offset) {
  const Words d;
  const VWords a = blocks.words(0, offset), b = blocks.words(1, offset);
  const VWords c = blocks.words(2, offset), e = blocks.words(3, offset);
  const VWords ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
  const VWords ac2 = hn::InterleaveUpper(d, a, c), be2 = hn::InterleaveUpper(d, b, e);
  return {{hn::InterleaveLower(d, ac, be), hn::InterleaveUpper(d, ac, be),
           hn::InterleaveLower(d, ac2, be2), hn::InterleaveUpper(d, ac2, be2)}};
}

struct TwoFloats {
  VFloats first;
  VFloats second;
};

HWY_INLINE VFloats float_of_halves(hn::Vec<hn::Full64<std::uint16_t>> bits) {
  return hn::PromoteTo(Floats(), hn::BitCast(hn::Full64<hwy::float16_t>(), bits));
}

/// The two half-precision numbers that open each block. Reads are short because one that crosses
/// cache lines costs a Neoverse N1 four cycles.
HWY_INLINE TwoFloats leading_halves(const FourBlocks& blocks) {
  const hn::Full64<std::uint16_t> d;
  const hn::Full64<std::uint32_t> pairs;
  const auto ab = hn::InterleaveLower(d, blocks.halves(0), blocks.halves(1));
  const auto ce = hn::InterleaveLower(d, blocks.halves(2), blocks.halves(3));
  const auto first = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  const auto second = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  return {float_of_halves(hn::BitCast(d, first)), float_of_halves(hn::BitCast(d, second))};
}

HWY_INLINE VSigned as_signed(VOctets v) { return hn::BitCast(SignedOctets(), v); }
HWY_INLINE VOctets octets_at(Bytes at) { return hn::LoadU(Octets(), at); }
HWY_INLINE VOctets low_nibbles(VOctets v) { return hn::And(v, hn::Set(Octets(), 15)); }
HWY_INLINE VOctets high_nibbles(VOctets v) { return hn::ShiftRight<4>(v); }
HWY_INLINE VFloats float_of(VWords v) {
  return hn::ConvertTo(Floats(), hn::BitCast(hn::Full128<std::int32_t>(), v));
}

/// Scales and offsets of the groups of a block, one row in each lane.
template <class Format>
struct Scales {
  HWY_INLINE Scales() {}  // one that the compiler makes would not be for this target
  VFloats scale[Format::kElements / 32 * Format::kGroups];
  VFloats offset[Format::kElements / 32];
};

/// What a format's 32 columns have: one scale or two, an offset or none.
template <unsigned groups, bool with_offset>
struct Shape {
  static constexpr unsigned kGroups = groups;
  static constexpr bool kHasOffset = with_offset;
};

template <TensorType type, class ShapeType, unsigned parts = 1>
struct FormatOf : ShapeType {
  using ShapeOf = ShapeType;
  static constexpr unsigned kElements = block_shape(type).elements;
  static constexpr unsigned kBytes = block_shape(type).bytes;
  static constexpr unsigned kParts = parts;
};

struct Q8_0 : FormatOf<TensorType::q8_0, Shape<1, false>> {
  static HWY_INLINE void scales(const FourBlocks& blocks, Scales<Q8_0>& to) {
    to.scale[0] = leading_halves(blocks).first;
  }
  template <unsigned>
  static HWY_INLINE Values values(Bytes block, unsigned) {
    return {as_signed(octets_at(block + 2)), as_signed(octets_at(block + 18))};
  }
};

/// The 8 to be subtracted becomes an offset: one product instead of 32 subtractions.
struct Q4_0 : FormatOf<TensorType::q4_0, Shape<1, true>> {
  static HWY_INLINE void scales(const FourBlocks& blocks, Scales<Q4_0>& to) {
    to.scale[0] = leading_halves(blocks).first;
    to.offset[0] = hn::Mul(to.scale[0], hn::Set(Floats(), -8.0f));
  }
  template <unsigned>
  static HWY_INLINE Values values(Bytes block, unsigned) {
    const VOctets both = octets_at(block + 2);
    return {as_signed(low_nibbles(both)), as_signed(high_nibbles(both))};
  }
};

struct Q4_1 : FormatOf<TensorType::q4_1, Shape<1, true>> {
  static HWY_INLINE void scales(const FourBlocks& blocks, Scales<Q4_1>& to) {
    const TwoFloats leading = leading_halves(blocks);
    to.scale[0] = leading.first;
    to.offset[0] = leading.second;
  }
  template <unsigned>
  static HWY_INLINE Values values(Bytes block, unsigned) {
    const VOctets both = octets_at(block + 4);
    return {as_signed(low_nibbles(both)), as_signed(high_nibbles(both))};
  }
};

/// The header of Q4_K and Q5_K: two halves, then eight scales and eight offsets in 6 bits each.
template <class Format>
HWY_NOINLINE void six_bit_scales(const FourBlocks& blocks, Scales<Format>& to) {
  const FourWords words = transposed(blocks, 0);
  const TwoFloats leading = leading_halves(blocks);
  const VFloats negative = hn::Neg(leading.second);
  const auto mask = [](std::uint32_t bits) HWY_ATTR { return hn::Set(Words(), bits); };
  const VWords nibbles = mask(0x0f0f0f0f), pairs = mask(0x30303030), six = mask(0x3f3f3f3f);
  const VWords a = words.word[1], b = words.word[2], c = words.word[3];
  VWords scale[2] = {hn::And(a, six), hn::Or(hn::And(c, nibbles),  //
                                             hn::And(hn::ShiftRight<2>(a), pairs))};
  VWords offset[2] = {hn::And(b, six), hn::Or(hn::And(hn::ShiftRight<4>(c), nibbles),
                                              hn::And(hn::ShiftRight<2>(b), pairs))};
  const VWords byte = mask(0xff);
#pragma GCC unroll 8
  for (unsigned part = 0; part < 8; ++part) {
    VWords& s = scale[part / 4];
    VWords& o = offset[part / 4];
    to.scale[part] = hn::Mul(float_of(hn::And(s, byte)), leading.first);
    to.offset[part] = hn::Mul(float_of(hn::And(o, byte)), negative);
    s = hn::ShiftRight<8>(s);
    o = hn::ShiftRight<8>(o);
  }
}

template <unsigned part>
HWY_INLINE VOctets nibbles_of(VOctets both) {
  if constexpr (part % 2 == 0)
    return low_nibbles(both);
  else
    return high_nibbles(both);
}

struct Q4_K : FormatOf<TensorType::q4_k, Shape<1, true>, 2> {
  static HWY_INLINE void scales(const FourBlocks& blocks, Scales<Q4_K>& to) {
    six_bit_scales(blocks, to);
  }
  template <unsigned part>
  static HWY_INLINE Values values(Bytes block, unsigned turn) {
    Bytes low = block + 16 + turn * 32;
    return {as_signed(nibbles_of<part>(octets_at(low))),
            as_signed(nibbles_of<part>(octets_at(low + 16)))};
  }
};

struct Q5_K : FormatOf<TensorType::q5_k, Shape<1, true>, 2> {
  static HWY_INLINE void scales(const FourBlocks& blocks, Scales<Q5_K>& to) {
    six_bit_scales(blocks, to);
  }
  template <unsigned part>
  static HWY_INLINE Values values(Bytes block, unsigned turn) {
    Bytes low = block + 48 + turn * 32;
    const int bit = static_cast<int>(2 * turn + part);
    return {sixteen<part>(low, block + 16, bit), sixteen<part>(low + 16, block + 32, bit)};
  }

 private:
  template <unsigned part>
  static HWY_INLINE VSigned sixteen(Bytes low, Bytes high, int bit) {
    const VOctets one = hn::And(hn::ShiftRightSame(octets_at(high), bit), hn::Set(Octets(), 1));
    return as_signed(hn::Or(nibbles_of<part>(octets_at(low)), hn::ShiftLeft<4>(one)));
  }
};

struct Q6_K : FormatOf<TensorType::q6_k, Shape<2, false>, 4> {
  static HWY_NOINLINE void scales(const FourBlocks& blocks, Scales<Q6_K>& to) {
    const hn::Full128<std::int32_t> d;
    const FourWords packed = transposed(blocks, 192);
    // The second half of the block's last word is its scale, in half precision.
    const VWords last = hn::ShiftRight<16>(transposed(blocks, 194).word[3]);
    const VFloats all = float_of_halves(hn::TruncateTo(hn::Full64<std::uint16_t>(), last));
#pragma GCC unroll 8
    for (unsigned word = 0; word < 4; ++word) {
      auto bytes = hn::BitCast(d, packed.word[word]);
      const auto third = hn::ShiftLeft<8>(bytes);
      const auto second = hn::ShiftLeft<16>(bytes);
      const auto first = hn::ShiftLeft<24>(bytes);
      const auto scaled = [&](auto v) HWY_ATTR {
        return hn::Mul(hn::ConvertTo(Floats(), hn::ShiftRight<24>(v)), all);
      };
      to.scale[4 * word] = scaled(first);
      to.scale[4 * word + 1] = scaled(second);
      to.scale[4 * word + 2] = scaled(third);
      to.scale[4 * word + 3] = scaled(bytes);
    }
  }
  template <unsigned part>
  static HWY_INLINE Values values(Bytes block, unsigned turn) {
    Bytes low = block + turn * 64 + part % 2 * 32;
    Bytes high = block + 128 + turn * 32;
    return {sixteen<part>(low, high), sixteen<part>(low + 16, high + 16)};
  }

 private:
  template <unsigned quarter>
  static HWY_INLINE VSigned sixteen(Bytes low, Bytes high) {
    VOctets two = octets_at(high);
    if constexpr (quarter < 2)
      two = hn::ShiftLeft<4 - 2 * quarter>(two);
    else if constexpr (quarter == 3)
      two = hn::ShiftRight<2>(two);
    const VOctets all =
        hn::Or(nibbles_of<quarter / 2>(octets_at(low)), hn::And(two, hn::Set(Octets(), 0x30)));
    return hn::Sub(as_signed(all), hn::Set(SignedOctets(), 32));
  }
};

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
