// integer_tiles.cpp: the path of integer_tiles.hpp for any processor, with products of 16-bit
// integers in Highway, and the choice between the paths.
#include "kernels/linear/host/integer_tiles.hpp"

#include "kernels/host/simd.hpp"
// On x86-64 the targets end with AVX2: all processors that have it have a faster path too. The
// tests compare those paths with this one, and SSE4, without a fused multiply-add, would give other
// bits.
#ifdef __x86_64__
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_AVX2 - 1)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/host/integer_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/host/four_blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

struct Dot {
  using X = RowBlock;
  static constexpr unsigned kTileCount = 4;
  using Shorts = hn::CappedTag<std::int16_t, 16>;
  using Ints = hn::RepartitionToWide<Shorts>;
  using Ints4 = hn::Full128<std::int32_t>;
  static constexpr unsigned kLanes = HWY_MIN(HWY_LANES(std::int16_t), 16);
  static constexpr unsigned kVectors = 32 / kLanes;  // that hold 32 columns
  struct Weights {
    HWY_INLINE Weights() {}  // one that the compiler makes would not be for this target
    hn::Vec<Shorts> vector[kTileRows][kVectors];
  };

  using Panel = std::int16_t[kTileRows][32];

  template <class>
  static HWY_INLINE Weights weights(const Values<VSigned> (&values)[kTileRows]) {
    Weights w;
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row) {
      widen(values[row].first, &w.vector[row][0]);
      widen(values[row].second, &w.vector[row][kVectors / 2]);
    }
    return w;
  }
  template <class>
  static HWY_INLINE void store(const Weights& w, Panel& to) {
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row)
#pragma GCC unroll 8
      for (unsigned at = 0; at < kVectors; ++at)
        hn::StoreU(w.vector[row][at], Shorts(), to[row] + at * kLanes);
  }
  template <class, unsigned first, unsigned last, unsigned count>
  static HWY_INLINE void products(const Weights& w, const X* x, std::size_t stride,
                                  VInts (&to)[count]) {
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i) to[i] = products<first, last>(w, x[i * stride]);
  }
  template <class ShapeOf, unsigned first, unsigned last, unsigned count>
  static HWY_INLINE void products(const Panel& panel, const X* x, std::size_t stride,
                                  VInts (&to)[count]) {
    products<ShapeOf, first, last>(load(panel), x, stride, to);
  }

 private:
  static HWY_INLINE Weights load(const Panel& from) {
    Weights w;
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row)
#pragma GCC unroll 8
      for (unsigned at = 0; at < kVectors; ++at)
        w.vector[row][at] = hn::LoadU(Shorts(), from[row] + at * kLanes);
    return w;
  }

  /// At most 2^27.
  template <unsigned first, unsigned last>
  static HWY_INLINE VInts products(const Weights& w, const X& x) {
    VInts sum[kTileRows];
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row) {
      auto even = hn::Zero(Ints());
      auto odd = hn::Zero(Ints());
#pragma GCC unroll 8
      for (unsigned at = first * kVectors / 2; at < last * kVectors / 2; ++at)
        even = hn::ReorderWidenMulAccumulate(
            Ints(), w.vector[row][at], hn::LoadU(Shorts(), x.values + at * kLanes), even, odd);
      sum[row] = four_lanes(hn::Add(even, odd));
    }
    return pair_sums(pair_sums(sum[0], sum[1]), pair_sums(sum[2], sum[3]));
  }

#if HWY_MAX_BYTES >= 32
  static HWY_INLINE void widen(VSigned v, hn::Vec<Shorts>* to) { *to = hn::PromoteTo(Shorts(), v); }
  static HWY_INLINE VInts four_lanes(hn::Vec<Ints> v) {
    return hn::Add(hn::LowerHalf(Ints4(), v), hn::UpperHalf(Ints4(), v));
  }
#else
  static HWY_INLINE void widen(VSigned v, hn::Vec<Shorts>* to) {
    const hn::Full64<std::int8_t> half;
    to[0] = hn::PromoteTo(Shorts(), hn::LowerHalf(half, v));
    to[1] = hn::PromoteTo(Shorts(), hn::UpperHalf(half, v));
  }
  static HWY_INLINE VInts four_lanes(hn::Vec<Ints> v) { return v; }
#endif
  static HWY_INLINE VInts pair_sums(VInts a, VInts b) {
    return hn::Add(hn::ConcatEven(Ints4(), b, a), hn::ConcatOdd(Ints4(), b, a));
  }
};

}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "kernels/linear/host/integer_tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
void multiply_portably(const IntegerTile& tile) { multiply(tile); }
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::kernels::host {
namespace {
HWY_EXPORT(multiply_portably);
void multiply_here(const IntegerTile& tile) { HWY_DYNAMIC_DISPATCH(multiply_portably)(tile); }
}  // namespace

const std::vector<const IntegerPath*>& integer_paths() {
  static const std::vector<const IntegerPath*> kPaths = [] {
    static constexpr IntegerPath kPortable{"portable", nullptr, &multiply_here};
    std::vector<const IntegerPath*> paths;
    for (const IntegerPath* path : {dotprod_path(), vnni_path(), avx_vnni_path(), avx2_path()})
      if (path) paths.push_back(path);
    paths.push_back(&kPortable);
    return paths;
  }();
  return kPaths;
}

}  // namespace attacca::kernels::host
#endif
