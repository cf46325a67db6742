// integer_tiles_dotprod.cpp: the path of integer_tiles.hpp for ARM processors with byte dot
// products (SDOT makes 16 products in one instruction, 16-bit multiplies only 4). A 16-bit x is 256
// * high + low in signed bytes, so two dot products give the same exact integers.
#include "kernels/linear/host/integer_tiles.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include "kernels/host/simd.hpp"

#include <arm_neon.h>
#include <hwy/highway.h>
#include <sys/auxv.h>

#include <utility>

#include "kernels/linear/host/four_blocks-inl.hpp"

#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+crypto+dotprod,tune=neoverse-n1")

namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

struct alignas(16) SplitBlock {
  float scale;
  float sum;
  float unused[2];  // so that no read crosses a cache line
  std::int8_t high[32];
  std::int8_t low[32];
};
static_assert(sizeof(SplitBlock) == kPreparedBytes);

struct Dot {
  using X = SplitBlock;
  static constexpr unsigned kTileCount = 4;
  struct Weights {
    int8x16_t half[kTileRows][2];
  };
  /// Interleaves four columns of each row, so that rows are the lanes of the sums.
  using Panel = std::int8_t[8][16];

  template <class>
  static HWY_INLINE Weights weights(const Values<VSigned> (&values)[kTileRows]) {
    Weights w;
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row) {
      w.half[row][0] = values[row].first.raw;
      w.half[row][1] = values[row].second.raw;
    }
    return w;
  }

  template <class>
  static HWY_INLINE void store(const Weights& w, Panel& to) {
#pragma GCC unroll 8
    for (unsigned half = 0; half < 2; ++half) {
      const int32x4_t a = vreinterpretq_s32_s8(w.half[0][half]);
      const int32x4_t b = vreinterpretq_s32_s8(w.half[1][half]);
      const int32x4_t c = vreinterpretq_s32_s8(w.half[2][half]);
      const int32x4_t d = vreinterpretq_s32_s8(w.half[3][half]);
      const int32x4x2_t ac = vzipq_s32(a, c);
      const int32x4x2_t bd = vzipq_s32(b, d);
#pragma GCC unroll 8
      for (unsigned pair = 0; pair < 2; ++pair) {
        const int32x4x2_t both = vzipq_s32(ac.val[pair], bd.val[pair]);
        vst1q_s8(to[4 * half + 2 * pair], vreinterpretq_s8_s32(both.val[0]));
        vst1q_s8(to[4 * half + 2 * pair + 1], vreinterpretq_s8_s32(both.val[1]));
      }
    }
  }
  template <class, unsigned first, unsigned last, unsigned count>
  static HWY_INLINE void products(const Weights& w, const X* x, std::size_t stride,
                                  VInts (&to)[count]) {
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i) to[i] = products<first, last>(w, x[i * stride]);
  }
  template <class, unsigned first, unsigned last, unsigned count>
  static HWY_INLINE void products(const Panel& panel, const X* x, std::size_t stride,
                                  VInts (&to)[count]) {
    const PanelWeights w = load(panel);
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i) to[i] = products<first, last>(w, x[i * stride]);
  }

 private:
  /// At most 2^27.
  template <unsigned first, unsigned last>
  static HWY_INLINE VInts products(const Weights& w, const X& x) {
    int32x4_t sum[kTileRows];
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row) sum[row] = zero(w.half[row][first]);
#pragma GCC unroll 8
    for (unsigned half = first; half < last; ++half)
#pragma GCC unroll 8
      for (unsigned row = 0; row < kTileRows; ++row)
        sum[row] = vdotq_s32(sum[row], w.half[row][half], vld1q_s8(x.high + 16 * half));
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row) sum[row] = vshlq_n_s32(sum[row], 8);
#pragma GCC unroll 8
    for (unsigned half = first; half < last; ++half)
#pragma GCC unroll 8
      for (unsigned row = 0; row < kTileRows; ++row)
        sum[row] = vdotq_s32(sum[row], w.half[row][half], vld1q_s8(x.low + 16 * half));
    return VInts(vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3])));
  }

  struct PanelWeights {
    int8x16_t columns[8];
  };
  static HWY_INLINE PanelWeights load(const Panel& from) {
    PanelWeights w;
#pragma GCC unroll 8
    for (unsigned at = 0; at < 8; ++at) w.columns[at] = vld1q_s8(from[at]);
    return w;
  }
  template <unsigned first, unsigned last>
  static HWY_INLINE VInts products(const PanelWeights& w, const X& x) {
    int32x4_t high = vdupq_n_s32(0);
    int32x4_t low = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (unsigned half = first; half < last; ++half) {
      const int8x16_t* columns = &w.columns[4 * half];
      const int8x16_t x_high = vld1q_s8(x.high + 16 * half);
      const int8x16_t x_low = vld1q_s8(x.low + 16 * half);
      high = vdotq_laneq_s32(high, columns[0], x_high, 0);
      low = vdotq_laneq_s32(low, columns[0], x_low, 0);
      high = vdotq_laneq_s32(high, columns[1], x_high, 1);
      low = vdotq_laneq_s32(low, columns[1], x_low, 1);
      high = vdotq_laneq_s32(high, columns[2], x_high, 2);
      low = vdotq_laneq_s32(low, columns[2], x_low, 2);
      high = vdotq_laneq_s32(high, columns[3], x_high, 3);
      low = vdotq_laneq_s32(low, columns[3], x_low, 3);
    }
    return VInts(vaddq_s32(vshlq_n_s32(high, 8), low));
  }

  /// Makes a new zero. The compiler would copy an existing one, which occupies a pipeline; this
  /// does not. `unlike` keeps it from merging two of them.
  static HWY_INLINE int32x4_t zero(int8x16_t unlike) {
    int32x4_t v;
    asm("movi %0.4s, #0" : "=w"(v) : "w"(unlike));
    return v;
  }
};

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE

#include "kernels/linear/host/integer_tiles-inl.hpp"

namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

void split(const RowBlock* x, std::size_t count, std::byte* to_bytes) {
  SplitBlock* y = reinterpret_cast<SplitBlock*>(to_bytes);
  for (const RowBlock* end = x + count; x != end; ++x, ++y) {
    y->scale = x->scale;
    y->sum = x->sum;
    const int16x8_t half = vdupq_n_s16(128);
    for (unsigned at = 0; at < 32; at += 16) {
      const int16x8_t a = vld1q_s16(x->values + at);
      const int16x8_t b = vld1q_s16(x->values + at + 8);
      vst1q_s8(y->low + at, vuzp1q_s8(vreinterpretq_s8_s16(a), vreinterpretq_s8_s16(b)));
      // The nearest multiple of 256, so that the remainder is a signed byte.
      vst1q_s8(y->high + at, vuzp2q_s8(vreinterpretq_s8_s16(vaddq_s16(a, half)),
                                       vreinterpretq_s8_s16(vaddq_s16(b, half))));
    }
  }
}

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE

#pragma GCC pop_options

namespace attacca::kernels::host {

const IntegerPath* dotprod_path() {
  static constexpr IntegerPath kPath{"dotprod", &HWY_NAMESPACE::split, &HWY_NAMESPACE::multiply};
  static const bool is_here = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return is_here ? &kPath : nullptr;
}

}  // namespace attacca::kernels::host

#else

namespace attacca::kernels::host {
const IntegerPath* dotprod_path() { return nullptr; }
}  // namespace attacca::kernels::host

#endif
