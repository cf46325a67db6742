// byte_products-inl.hpp: the `Dot` of integer_tiles-inl.hpp for x86-64 processors with byte dot
// products. VPDPBUSD adds the products of four columns of all rows; the including file first
// defines it for its vectors as `add_products_of_four`. It takes unsigned weights and signed x. A
// 16-bit x is 256 * high + low in signed bytes, so two of them give the same exact integers. Signed
// weights get 128 more, and 128 times the sum of x is subtracted.
#include "kernels/linear/host/many_blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

struct alignas(16) SplitBlock {
  float scale;
  float sum;
  std::int32_t correction[2];  // -128 times the sum of 16 columns each
  std::int8_t high[32];
  std::int8_t low[32];
};
static_assert(sizeof(SplitBlock) == kPreparedBytes);

struct Dot {
  using X = SplitBlock;
  static constexpr unsigned kTileCount = kTileRows / 2;  // two sums each, in 16 or 32 registers
  using Weights = Bytes32;                               // unsigned
  /// Four columns of each row side by side.
  using Panel = std::uint32_t[8][kTileRows];

  template <class ShapeOf>
  static HWY_INLINE Weights weights(const Values<VSigned> (&values)[4]) {
    Weights w(values);
    const VWords more = hn::Set(Words(), is_signed<ShapeOf> ? 0x80808080 : 0);
#pragma GCC unroll 2
    for (auto& half : w.half)
#pragma GCC unroll 4
      for (VWords& words : half) words = hn::Xor(words, more);
    return w;
  }

  template <class ShapeOf>
  static HWY_INLINE void store(Weights w, Panel& to) {
#pragma GCC unroll 2
    for (unsigned half = 0; half < 2; ++half) {
      transpose(w.half[half]);
#pragma GCC unroll 4
      for (unsigned word = 0; word < 4; ++word)
        hn::StoreU(w.half[half][word], Words(), to[4 * half + word]);
    }
  }

  /// At most 2^28 before the subtraction.
  template <class ShapeOf, unsigned first, unsigned last, unsigned count>
  static HWY_INLINE void products(const Weights& w, const X* x, std::size_t stride,
                                  VInts (&to)[count]) {
#pragma GCC unroll 2
    for (unsigned i = 0; i < count; ++i, x += stride) {
      VInts sum[4];
#pragma GCC unroll 4
      for (VInts& s : sum) s = hn::Zero(Ints());
#pragma GCC unroll 2
      for (unsigned half = first; half < last; ++half)
#pragma GCC unroll 4
        for (unsigned quad = 0; quad < 4; ++quad)
          sum[quad] = add(sum[quad], w.half[half][quad], sixteen_columns(x->high + 16 * half));
#pragma GCC unroll 4
      for (VInts& s : sum) s = hn::ShiftLeft<8>(s);
#pragma GCC unroll 2
      for (unsigned half = first; half < last; ++half)
#pragma GCC unroll 4
        for (unsigned quad = 0; quad < 4; ++quad)
          sum[quad] = add(sum[quad], w.half[half][quad], sixteen_columns(x->low + 16 * half));
      to[i] = hn::Add(row_sums(sum), correction<ShapeOf, first, last>(*x));
    }
  }
  template <class ShapeOf, unsigned first, unsigned last, unsigned count>
  static HWY_INLINE void products(const Panel& panel, const X* x, std::size_t stride,
                                  VInts (&to)[count]) {
    VInts high[count];
    VInts low[count];
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i) {
      high[i] = hn::Zero(Ints());
      low[i] = correction<ShapeOf, first, last>(x[i * stride]);
    }
#pragma GCC unroll 8
    for (unsigned word = 4 * first; word < 4 * last; ++word) {
      const VWords w = hn::LoadU(Words(), panel[word]);
#pragma GCC unroll 8
      for (unsigned i = 0; i < count; ++i) {
        const X& block = x[i * stride];
        high[i] = add(high[i], w, four_columns(block.high + 4 * word));
        low[i] = add(low[i], w, four_columns(block.low + 4 * word));
      }
    }
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i) to[i] = hn::Add(hn::ShiftLeft<8>(high[i]), low[i]);
  }

 private:
  /// The weights that are signed: those without an offset.
  template <class ShapeOf>
  static constexpr bool is_signed = !ShapeOf::kHasOffset;

  static HWY_INLINE VInts add(VInts sum, VWords w, VInts x) {
    return VInts{add_products_of_four(sum.raw, w.raw, x.raw)};
  }
  /// 16 columns of x for the rows of a quad.
  static HWY_INLINE VInts sixteen_columns(const std::int8_t* at) {
    return hn::BitCast(Ints(), hn::LoadDup128(hn::Repartition<std::int8_t, Ints>(), at));
  }
  /// Four columns of x for all rows.
  static HWY_INLINE VInts four_columns(const std::int8_t* at) {
    return hn::Set(Ints(), word_at(at));
  }
  /// Subtracts the 128 by which signed weights are too large.
  template <class ShapeOf, unsigned first, unsigned last>
  static HWY_INLINE VInts correction(const X& x) {
    if constexpr (!is_signed<ShapeOf>) return hn::Zero(Ints());
    return hn::Set(Ints(),
                   last - first == 2 ? x.correction[0] + x.correction[1] : x.correction[first]);
  }
};

void split(const RowBlock* x, std::size_t count, std::byte* to_bytes) {
  const hn::Full128<std::int16_t> shorts;
  const hn::Full128<std::int8_t> bytes;
  const hn::Full128<std::int32_t> ints;
  const auto half_of_256 = hn::Set(shorts, 128);
  const auto one = hn::Set(shorts, 1);
  SplitBlock* y = reinterpret_cast<SplitBlock*>(to_bytes);
  for (const RowBlock* end = x + count; x != end; ++x, ++y) {
    y->scale = x->scale;
    y->sum = x->sum;
    for (unsigned half = 0; half < 2; ++half) {
      const auto a = hn::LoadU(shorts, x->values + 16 * half);
      const auto b = hn::LoadU(shorts, x->values + 16 * half + 8);
      auto odd = hn::Zero(ints);
      auto sum = hn::ReorderWidenMulAccumulate(ints, a, one, hn::Zero(ints), odd);
      sum = hn::ReorderWidenMulAccumulate(ints, b, one, sum, odd);
      y->correction[half] = -128 * hn::GetLane(hn::SumOfLanes(ints, hn::Add(sum, odd)));
      hn::Store(hn::ConcatEven(bytes, hn::BitCast(bytes, b), hn::BitCast(bytes, a)), bytes,
                y->low + 16 * half);
      // The nearest multiple of 256, so that the remainder is a signed byte.
      const auto up = [&](auto v) HWY_ATTR { return hn::BitCast(bytes, hn::Add(v, half_of_256)); };
      hn::Store(hn::ConcatOdd(bytes, up(b), up(a)), bytes, y->high + 16 * half);
    }
  }
}

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "kernels/linear/host/integer_tiles-inl.hpp"
