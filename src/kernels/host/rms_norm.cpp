// rms_norm.cpp: the RMS norm on the host, vectorized with Highway. Squares are summed in floats
// over short runs and in a double across them, so long rows lose no precision.
#include "kernels/host/rms_norm.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/blocks.hpp"
#include "kernels/host/row_block.hpp"
#include "kernels/host/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/rms_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;

double sum_of_squares(const float* x, std::uint32_t count) {
  const Floats d;
  const std::uint32_t lanes = static_cast<std::uint32_t>(hn::Lanes(d));
  constexpr std::uint32_t kRun = 256;
  double total = 0;
  std::uint32_t at = 0;
  while (at + 2 * lanes <= count) {
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    for (const std::uint32_t end = std::min(count, at + kRun); at + 2 * lanes <= end;
         at += 2 * lanes) {
      const auto a = hn::LoadU(d, x + at);
      const auto b = hn::LoadU(d, x + at + lanes);
      even = hn::MulAdd(a, a, even);
      odd = hn::MulAdd(b, b, odd);
    }
    total += hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  }
  for (; at < count; ++at) total += static_cast<double>(x[at]) * x[at];
  return total;
}

void scale(const float* x, const float* weight, std::uint32_t count, float factor, float* y) {
  const Floats d;
  const std::uint32_t lanes = static_cast<std::uint32_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor);
  std::uint32_t at = 0;
  for (; at + lanes <= count; at += lanes)
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + at), factors), hn::LoadU(d, weight + at)), d,
               y + at);
  for (; at < count; ++at) y[at] = x[at] * factor * weight[at];
}

}  // namespace HWY_NAMESPACE
}  // namespace attacca::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::kernels::host {
namespace {

HWY_EXPORT(sum_of_squares);
HWY_EXPORT(scale);

float inverse_rms(const float* x, std::uint32_t columns, float epsilon) {
  const double mean = HWY_DYNAMIC_DISPATCH(sum_of_squares)(x, columns) / columns;
  return static_cast<float>(1 / std::sqrt(mean + static_cast<double>(epsilon)));
}

}  // namespace

void normalize(const float* x, const float* weight, std::uint32_t columns, float epsilon,
               float* y) {
  HWY_DYNAMIC_DISPATCH(scale)(x, weight, columns, inverse_rms(x, columns, epsilon), y);
}

void rms_norm(const RmsNormArgs& a, unsigned block, unsigned blocks) {
  const std::uint32_t columns = a.y.columns;
  const auto [first, last] = rows_of_block(*a.rows.count, block, blocks);
  for (std::uint32_t row = first; row < last; ++row) {
    const std::uint64_t from = a.gather ? static_cast<std::uint64_t>(a.gather[row]) : row;
    const float* x = a.x + from * columns;
    if (a.y.format == RowFormat::f32) {
      normalize(x, a.weight, columns, a.epsilon, static_cast<float*>(a.y.row(row)));
      continue;
    }
    const float factor = inverse_rms(x, columns, a.epsilon);
    auto* y = static_cast<RowBlock*>(a.y.row(row));
    float part[8 * RowBlock::kElements];
    constexpr std::uint32_t kPart = std::size(part);
    for (std::uint32_t at = 0; at < columns; at += kPart) {
      const std::uint32_t count = std::min(kPart, columns - at);
      HWY_DYNAMIC_DISPATCH(scale)(x + at, a.weight + at, count, factor, part);
      to_row_blocks(part, count, y + at / RowBlock::kElements);
    }
  }
}

}  // namespace attacca::kernels::host
#endif
