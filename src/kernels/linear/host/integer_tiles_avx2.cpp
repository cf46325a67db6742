// integer_tiles_avx2.cpp: the path of integer_tiles.hpp for x86-64 processors with AVX2. VPMADDWD
// adds the products of pairs of columns of 8 rows. So x stays 16-bit integers, and weights become
// such; VPMADDUBSW, which multiplies bytes, saturates. Shifts split a word with the columns 0 to 3
// into the pairs (0, 2) and (1, 3), so x has its columns in that order.
#include "kernels/linear/host/integer_tiles.hpp"

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_COMPILE_ONLY_STATIC
#include "kernels/host/simd.hpp"

#include <hwy/highway.h>
#include <immintrin.h>

#include "kernels/linear/host/many_blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

struct alignas(16) PairBlock {
  float scale;
  float sum;
  float unused[2];  // so that no read crosses a cache line
  struct {
    std::int16_t even[8];
    std::int16_t odd[8];
  } half[2];
};
static_assert(sizeof(PairBlock) == kPreparedBytes);

struct Dot {
  using X = PairBlock;
  using Shorts = hn::Repartition<std::int16_t, Floats>;
  using VShorts = hn::Vec<Shorts>;
  static constexpr unsigned kTileCount = 8;
  using Weights = Bytes32;
  /// Two columns of each row side by side: even ones, then odd ones.
  using Panel = std::int16_t[8][2][2 * kTileRows];

  template <class ShapeOf>
  static HWY_INLINE Weights weights(const Values<VSigned> (&values)[4]) {
    return Weights(values);
  }

  template <class ShapeOf>
  static HWY_INLINE void store(Weights w, Panel& to) {
#pragma GCC unroll 2
    for (unsigned half = 0; half < 2; ++half) {
      transpose(w.half[half]);
#pragma GCC unroll 4
      for (unsigned word = 0; word < 4; ++word) {
        hn::StoreU(even<ShapeOf>(w.half[half][word]), Shorts(), to[4 * half + word][0]);
        hn::StoreU(odd(w.half[half][word]), Shorts(), to[4 * half + word][1]);
      }
    }
  }

  /// At most 2^27.
  template <class ShapeOf, unsigned first, unsigned last, unsigned count>
  static HWY_INLINE void products(const Weights& w, const X* x, std::size_t stride,
                                  VInts (&to)[count]) {
    VInts sum[count][4];
#pragma GCC unroll 2
    for (auto& quads : sum)
#pragma GCC unroll 4
      for (VInts& s : quads) s = hn::Zero(Ints());
#pragma GCC unroll 2
    for (unsigned half = first; half < last; ++half) {
#pragma GCC unroll 4
      for (unsigned quad = 0; quad < 4; ++quad) {
        const VShorts w_even = even<ShapeOf>(w.half[half][quad]);
        const VShorts w_odd = odd(w.half[half][quad]);
#pragma GCC unroll 2
        for (unsigned i = 0; i < count; ++i) {
          const auto& block = x[i * stride].half[half];
          sum[i][quad] = add(sum[i][quad], w_even, hn::LoadDup128(Shorts(), block.even), w_odd,
                             hn::LoadDup128(Shorts(), block.odd));
        }
      }
    }
#pragma GCC unroll 2
    for (unsigned i = 0; i < count; ++i) to[i] = row_sums(sum[i]);
  }
  template <class ShapeOf, unsigned first, unsigned last, unsigned count>
  static HWY_INLINE void products(const Panel& panel, const X* x, std::size_t stride,
                                  VInts (&to)[count]) {
#pragma GCC unroll 8
    for (VInts& sum : to) sum = hn::Zero(Ints());
#pragma GCC unroll 8
    for (unsigned word = 4 * first; word < 4 * last; ++word) {
      const VShorts w_even = hn::LoadU(Shorts(), panel[word][0]);
      const VShorts w_odd = hn::LoadU(Shorts(), panel[word][1]);
#pragma GCC unroll 8
      for (unsigned i = 0; i < count; ++i) {
        const auto& block = x[i * stride].half[word / 4];
        to[i] = add(to[i], w_even, two_columns(block.even + word % 4 * 2), w_odd,
                    two_columns(block.odd + word % 4 * 2));
      }
    }
  }

 private:
  /// Adds the products of two pairs of columns.
  static HWY_INLINE VInts add(VInts sum, VShorts w, VShorts x, VShorts w2, VShorts x2) {
    const __m256i both =
        _mm256_add_epi32(_mm256_madd_epi16(w.raw, x.raw), _mm256_madd_epi16(w2.raw, x2.raw));
    __m256i next = _mm256_add_epi32(sum.raw, both);
    // Keeps the order of sums: else g++ makes all products first and adds them later, from memory.
    asm("" : "+x"(next));
    return VInts{next};
  }
  /// Two columns of x for all rows.
  static HWY_INLINE VShorts two_columns(const std::int16_t* at) {
    return hn::BitCast(Shorts(), hn::Set(Ints(), word_at(at)));
  }
  template <class ShapeOf>
  static HWY_INLINE VShorts even(VWords w) {
    const VShorts v = hn::BitCast(Shorts(), w);
    if constexpr (ShapeOf::kHasOffset)  // so weights are not negative
      return hn::And(v, hn::Set(Shorts(), 0xff));
    else
      return hn::ShiftRight<8>(hn::ShiftLeft<8>(v));
  }
  static HWY_INLINE VShorts odd(VWords w) { return hn::ShiftRight<8>(hn::BitCast(Shorts(), w)); }
};

void to_pairs(const RowBlock* x, std::size_t count, std::byte* to_bytes) {
  const hn::Full128<std::int16_t> d;
  PairBlock* y = reinterpret_cast<PairBlock*>(to_bytes);
  for (const RowBlock* end = x + count; x != end; ++x, ++y) {
    y->scale = x->scale;
    y->sum = x->sum;
    for (unsigned half = 0; half < 2; ++half) {
      const auto a = hn::LoadU(d, x->values + 16 * half);
      const auto b = hn::LoadU(d, x->values + 16 * half + 8);
      hn::Store(hn::ConcatEven(d, b, a), d, y->half[half].even);
      hn::Store(hn::ConcatOdd(d, b, a), d, y->half[half].odd);
    }
  }
}

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "kernels/linear/host/integer_tiles-inl.hpp"

namespace attacca::kernels::host {

const IntegerPath* avx2_path() {
  static constexpr IntegerPath kPath{"avx2", &HWY_NAMESPACE::to_pairs, &HWY_NAMESPACE::multiply};
  static const bool is_here = (hwy::SupportedTargets() & HWY_AVX2) != 0;
  return is_here ? &kPath : nullptr;
}

}  // namespace attacca::kernels::host

#else

namespace attacca::kernels::host {
const IntegerPath* avx2_path() { return nullptr; }
}  // namespace attacca::kernels::host

#endif
