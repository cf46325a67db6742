// float_tiles.cpp: the loops of float_tiles.hpp, written with Highway and compiled for each
// instruction set. The best one is chosen when the program runs.
#include "kernels/linear/host/float_tiles.hpp"

#include <algorithm>

#include "kernels/host/simd.hpp"
#include "kernels/quantization.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/host/float_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using VFloats = hn::Vec<Floats>;

constexpr unsigned kLanes = HWY_LANES(float);
constexpr unsigned kTileRows = 4;
/// Rows of x that are computed together: 4 x 4 sums fit in registers where there are 32 vector
/// registers.
constexpr unsigned kTileCount = HWY_ARCH_ARM_A64 || HWY_MAX_BYTES == 64 ? 4 : 2;

HWY_INLINE VFloats load(const float* at) { return hn::LoadU(Floats(), at); }
HWY_INLINE VFloats load(const hwy::float16_t* at) {
  return hn::PromoteTo(Floats(), hn::LoadU(hn::Rebind<hwy::float16_t, Floats>(), at));
}
HWY_INLINE VFloats load(const hwy::bfloat16_t* at) {
#if HWY_TARGET == HWY_NEON  // one instruction instead of two
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const std::uint16_t*>(at));
  return VFloats(vreinterpretq_f32_u32(vshll_n_u16(bits, 16)));
#else
  return hn::PromoteTo(Floats(), hn::LoadU(hn::Rebind<hwy::bfloat16_t, Floats>(), at));
#endif
}

/// Loads the last `count` elements, padded with zeros.
template <class T>
HWY_INLINE VFloats load_some(const T* at, unsigned count) {
  T some[kLanes] = {};
  for (unsigned i = 0; i < count; ++i) some[i] = at[i];
  return load(some);
}

template <class T>
struct FourRows {
  const T* at[kTileRows];
};

/// Sums of four weight rows with `count` rows of x.
template <unsigned count>
struct Sums {
  VFloats sum[kTileRows][count];

  HWY_INLINE Sums() {
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row)
#pragma GCC unroll 8
      for (unsigned i = 0; i < count; ++i) sum[row][i] = hn::Zero(Floats());
  }
  template <class LoadW, class LoadX>
  HWY_INLINE void add(LoadW load_w, LoadX load_x) {
    VFloats x[count];
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; ++i) x[i] = load_x(i);
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row) {
      const VFloats w = load_w(row);
#pragma GCC unroll 8
      for (unsigned i = 0; i < count; ++i) sum[row][i] = hn::MulAdd(w, x[i], sum[row][i]);
    }
  }
  HWY_INLINE float of(unsigned row, unsigned i) const {
    return hn::GetLane(hn::SumOfLanes(Floats(), sum[row][i]));
  }
};

/// The sums of sections on their way into a tile's results.
template <unsigned count>
struct Joined {
  float* out;
  bool adds;
  float third[kTileRows][count] = {};

  /// The next section, from the first on.
  HWY_INLINE void take(std::uint32_t section, const Sums<count>& sums) {
#pragma GCC unroll 8
    for (unsigned row = 0; row < kTileRows; ++row)
#pragma GCC unroll 8
      for (unsigned i = 0; i < count; ++i) {
        float& to = out[i * kTileOutputs + row];
        const float sum = sums.of(row, i);
        if (section == 2)
          third[row][i] = sum;
        else if (section == 3)
          to += third[row][i] + sum;
        else
          to = section == 0 && !adds ? sum : to + sum;
      }
  }
};

template <class T, unsigned count>
HWY_NOINLINE void multiply_rows(const FourRows<T>& w, const float* x, const FloatTile& tile,
                                float* out) {
  const FourRows<T> rows = w;
  const std::size_t stride = tile.w.columns;
  // Prefetches the following four rows.
  const T* ahead = rows.at[0] + kTileRows * stride;
  const std::uint32_t columns = tile.w.columns / tile.sections;
  Joined<count> joined{out, tile.adds};
  std::uint32_t column = 0;
  for (std::uint32_t section = 0; section < tile.sections; ++section) {
    const std::uint32_t end = (section + 1) * columns;
    Sums<count> sums;
    for (; column + kLanes <= end; column += kLanes) {
      if constexpr (count == 1) {
        hwy::Prefetch(ahead);
        ahead += kTileRows * kLanes;
      }
      sums.add([&](unsigned row) HWY_ATTR { return load(rows.at[row] + column); },
               [&](unsigned i) HWY_ATTR { return load(x + i * stride + column); });
    }
    if (const unsigned left = end - column; left != 0)
      sums.add([&](unsigned row) HWY_ATTR { return load_some(rows.at[row] + column, left); },
               [&](unsigned i) HWY_ATTR { return load_some(x + i * stride + column, left); });
    column = end;
    joined.take(section, sums);
  }
}

template <class T>
void multiply_all(const FourRows<T>& w, const FloatTile& tile, float* out) {
  const std::size_t columns = tile.w.columns;
  std::uint32_t i = 0;
  for (; i + kTileCount <= tile.count; i += kTileCount)
    multiply_rows<T, kTileCount>(w, tile.x + i * columns, tile, out + i * kTileOutputs);
  for (; i < tile.count; ++i)
    multiply_rows<T, 1>(w, tile.x + i * columns, tile, out + i * kTileOutputs);
}

template <class Half>
void unpack(const Half* from, std::uint32_t columns, float* to) {
  std::uint32_t column = 0;
  for (; column + kLanes <= columns; column += kLanes)
    hn::StoreU(load(from + column), Floats(), to + column);
  const unsigned left = columns - column;
  float last[kLanes];
  hn::StoreU(load_some(from + column, left), Floats(), last);
  std::copy_n(last, left, to + column);
}

/// Four rows of weights as floats, in place or unpacked into the panel.
template <class T>
FourRows<T> rows_at(const FloatTile& tile, std::uint32_t row) {
  FourRows<T> rows;
  for (unsigned r = 0; r < kTileRows; ++r) {
    // Past the last row, that row is computed again and not used.
    const std::uint32_t at = std::min(row + r, tile.rows - 1);
    rows.at[r] = static_cast<const T*>(tile.w.row(tile.first + at));
  }
  return rows;
}
template <class Unpack>
HWY_INLINE FourRows<float> unpacked(const FloatTile& tile, Unpack unpack_to) {
  FourRows<float> rows;
  float* panel = reinterpret_cast<float*>(tile.panel);
  for (unsigned r = 0; r < kTileRows; ++r, panel += tile.w.columns) {
    unpack_to(r, panel);
    rows.at[r] = panel;
  }
  return rows;
}

template <class Half>
void multiply_halves(const FloatTile& tile, std::uint32_t row) {
  const FourRows<Half> rows = rows_at<Half>(tile, row);
  if (tile.count <= 2) return multiply_all(rows, tile, tile.out + row);
  const auto floats = unpacked(
      tile, [&](unsigned r, float* to) HWY_ATTR { unpack(rows.at[r], tile.w.columns, to); });
  multiply_all(floats, tile, tile.out + row);
}

void multiply_quantized(const FloatTile& tile, std::uint32_t row) {
  const auto rows = rows_at<unsigned char>(tile, row);
  const auto floats = unpacked(tile, [&](unsigned r, float* to) HWY_ATTR {
    for (std::uint32_t column = 0; column < tile.w.columns; ++column)
      to[column] = element(tile.w.type, rows.at[r], column);
  });
  multiply_all(floats, tile, tile.out + row);
}

}  // namespace

void multiply_floats(const FloatTile& tile) {
  for (std::uint32_t row = 0; row < tile.rows; row += kTileRows) {
    switch (tile.w.type) {
      case TensorType::f32:
        multiply_all(rows_at<float>(tile, row), tile, tile.out + row);
        break;
      case TensorType::f16:
        multiply_halves<hwy::float16_t>(tile, row);
        break;
      case TensorType::bf16:
        multiply_halves<hwy::bfloat16_t>(tile, row);
        break;
      default:
        multiply_quantized(tile, row);
    }
  }
}

}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::kernels::host {
HWY_EXPORT(multiply_floats);
void multiply(const FloatTile& tile) { HWY_DYNAMIC_DISPATCH(multiply_floats)(tile); }
}  // namespace attacca::kernels::host
#endif
