// formats-inl.hpp: decodes the quantized tensor types, several rows of weights at a time. Each
// format gives
//  scales   the scales and offsets of one block of several rows, one row in each lane. The blocks'
//           type has functions `transposed` and `leading_halves`
//  values   32 columns as signed bytes, the integers q of quantization.hpp: part `part` of turn
//           `turn`. All turns through a block run the same code, kParts each. They are those
//           of one row, or of several side by side, as `octets_at` reads a block
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

/// 32 columns: 16 and 16 of each row.
template <class V>
struct Values {
  V first;
  V second;
};

/// Words 0 to 3 of a block from some place on, one row in each lane.
template <class D>
struct FourWords {
  hn::Vec<hn::RebindToUnsigned<D>> word[4];
};

/// The two half-precision numbers that open a block.
template <class D>
struct TwoFloats {
  hn::Vec<D> first;
  hn::Vec<D> second;
};

template <class D>
HWY_INLINE hn::Vec<D> float_of_halves(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> bits) {
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
}

HWY_INLINE auto octets_at(Bytes at) { return hn::LoadU(hn::Full128<std::uint8_t>(), at); }
template <class V>
HWY_INLINE auto as_signed(V v) {
  return hn::BitCast(hn::RebindToSigned<hn::DFromV<V>>(), v);
}
template <class V>
HWY_INLINE V low_nibbles(V v) {
  return hn::And(v, hn::Set(hn::DFromV<V>(), 15));
}
template <class V>
HWY_INLINE V high_nibbles(V v) {
  return hn::ShiftRight<4>(v);
}
template <class V>
HWY_INLINE Values<V> values_of(V first, V second) {
  return {first, second};
}
template <class V>
HWY_INLINE auto float_of(V v) {
  using D = hn::DFromV<V>;
  return hn::ConvertTo(hn::RebindToFloat<D>(), hn::BitCast(hn::RebindToSigned<D>(), v));
}

/// Scales and offsets of the groups of a block, one row in each lane.
template <class Format, class D>
struct Scales {
  HWY_INLINE Scales() {}  // one that the compiler makes would not be for this target
  hn::Vec<D> scale[Format::kElements / 32 * Format::kGroups];
  hn::Vec<D> offset[Format::kElements / 32];
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
  template <class Blocks, class D>
  static HWY_INLINE void scales(const Blocks& blocks, Scales<Q8_0, D>& to) {
    to.scale[0] = leading_halves(blocks).first;
  }
  template <unsigned, class Source>
  static HWY_INLINE auto values(Source block, unsigned) {
    return values_of(as_signed(octets_at(block + 2)), as_signed(octets_at(block + 18)));
  }
};

/// The 8 to be subtracted becomes an offset: one product instead of 32 subtractions.
struct Q4_0 : FormatOf<TensorType::q4_0, Shape<1, true>> {
  template <class Blocks, class D>
  static HWY_INLINE void scales(const Blocks& blocks, Scales<Q4_0, D>& to) {
    to.scale[0] = leading_halves(blocks).first;
    to.offset[0] = hn::Mul(to.scale[0], hn::Set(D(), -8.0f));
  }
  template <unsigned, class Source>
  static HWY_INLINE auto values(Source block, unsigned) {
    const auto both = octets_at(block + 2);
    return values_of(as_signed(low_nibbles(both)), as_signed(high_nibbles(both)));
  }
};

struct Q4_1 : FormatOf<TensorType::q4_1, Shape<1, true>> {
  template <class Blocks, class D>
  static HWY_INLINE void scales(const Blocks& blocks, Scales<Q4_1, D>& to) {
    const TwoFloats<D> leading = leading_halves(blocks);
    to.scale[0] = leading.first;
    to.offset[0] = leading.second;
  }
  template <unsigned, class Source>
  static HWY_INLINE auto values(Source block, unsigned) {
    const auto both = octets_at(block + 4);
    return values_of(as_signed(low_nibbles(both)), as_signed(high_nibbles(both)));
  }
};

/// The header of Q4_K and Q5_K: two halves, then eight scales and eight offsets in 6 bits each.
template <class Format, class Blocks, class D>
HWY_NOINLINE void six_bit_scales(const Blocks& blocks, Scales<Format, D>& to) {
  using Words = hn::RebindToUnsigned<D>;
  using VWords = hn::Vec<Words>;
  const FourWords<D> words = transposed(blocks, 0);
  const TwoFloats<D> leading = leading_halves(blocks);
  const hn::Vec<D> negative = hn::Neg(leading.second);
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

template <unsigned part, class V>
HWY_INLINE V nibbles_of(V both) {
  if constexpr (part % 2 == 0)
    return low_nibbles(both);
  else
    return high_nibbles(both);
}

struct Q4_K : FormatOf<TensorType::q4_k, Shape<1, true>, 2> {
  template <class Blocks, class D>
  static HWY_INLINE void scales(const Blocks& blocks, Scales<Q4_K, D>& to) {
    six_bit_scales(blocks, to);
  }
  template <unsigned part, class Source>
  static HWY_INLINE auto values(Source block, unsigned turn) {
    const Source low = block + (16 + turn * 32);
    return values_of(as_signed(nibbles_of<part>(octets_at(low))),
                     as_signed(nibbles_of<part>(octets_at(low + 16))));
  }
};

struct Q5_K : FormatOf<TensorType::q5_k, Shape<1, true>, 2> {
  template <class Blocks, class D>
  static HWY_INLINE void scales(const Blocks& blocks, Scales<Q5_K, D>& to) {
    six_bit_scales(blocks, to);
  }
  template <unsigned part, class Source>
  static HWY_INLINE auto values(Source block, unsigned turn) {
    const Source low = block + (48 + turn * 32);
    const int bit = static_cast<int>(2 * turn + part);
    return values_of(sixteen<part>(low, block + 16, bit), sixteen<part>(low + 16, block + 32, bit));
  }

 private:
  template <unsigned part, class Source>
  static HWY_INLINE auto sixteen(Source low, Source high, int bit) {
    const auto bits = hn::ShiftRightSame(octets_at(high), bit);
    const auto one = hn::And(bits, hn::Set(hn::DFromV<decltype(bits)>(), 1));
    return as_signed(hn::Or(nibbles_of<part>(octets_at(low)), hn::ShiftLeft<4>(one)));
  }
};

struct Q6_K : FormatOf<TensorType::q6_k, Shape<2, false>, 4> {
  template <class Blocks, class D>
  static HWY_NOINLINE void scales(const Blocks& blocks, Scales<Q6_K, D>& to) {
    const D d;
    const hn::RebindToSigned<D> ints;
    const FourWords<D> packed = transposed(blocks, 192);
    // The second half of the block's last word is its scale, in half precision.
    const auto last = hn::ShiftRight<16>(transposed(blocks, 194).word[3]);
    const hn::Vec<D> all = float_of_halves(d, hn::TruncateTo(hn::Rebind<std::uint16_t, D>(), last));
#pragma GCC unroll 8
    for (unsigned word = 0; word < 4; ++word) {
      auto bytes = hn::BitCast(ints, packed.word[word]);
      const auto third = hn::ShiftLeft<8>(bytes);
      const auto second = hn::ShiftLeft<16>(bytes);
      const auto first = hn::ShiftLeft<24>(bytes);
      const auto scaled = [&](auto v) HWY_ATTR {
        return hn::Mul(hn::ConvertTo(d, hn::ShiftRight<24>(v)), all);
      };
      to.scale[4 * word] = scaled(first);
      to.scale[4 * word + 1] = scaled(second);
      to.scale[4 * word + 2] = scaled(third);
      to.scale[4 * word + 3] = scaled(bytes);
    }
  }
  template <unsigned part, class Source>
  static HWY_INLINE auto values(Source block, unsigned turn) {
    const Source low = block + (turn * 64 + part % 2 * 32);
    const Source high = block + (128 + turn * 32);
    return values_of(sixteen<part>(low, high), sixteen<part>(low + 16, high + 16));
  }

 private:
  template <unsigned quarter, class Source>
  static HWY_INLINE auto sixteen(Source low, Source high) {
    auto two = octets_at(high);
    const hn::DFromV<decltype(two)> d;
    if constexpr (quarter < 2)
      two = hn::ShiftLeft<4 - 2 * quarter>(two);
    else if constexpr (quarter == 3)
      two = hn::ShiftRight<2>(two);
    const auto all =
        hn::Or(nibbles_of<quarter / 2>(octets_at(low)), hn::And(two, hn::Set(d, 0x30)));
    return hn::Sub(as_signed(all), hn::Set(hn::RebindToSigned<decltype(d)>(), 32));
  }
};

/// Calls use.in<Format>() with the format of a quantized type, and nothing for floats.
template <class Use>
void with_format(TensorType type, const Use& use) {
  switch (type) {
    case TensorType::q8_0:
      return use.template in<Q8_0>();
    case TensorType::q4_0:
      return use.template in<Q4_0>();
    case TensorType::q4_1:
      return use.template in<Q4_1>();
    case TensorType::q4_k:
      return use.template in<Q4_K>();
    case TensorType::q5_k:
      return use.template in<Q5_K>();
    case TensorType::q6_k:
      return use.template in<Q6_K>();
    default:  // see float_tiles.hpp
      return;
  }
}

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
