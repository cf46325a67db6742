// row_block.cpp: to_row_blocks of row_block.hpp, vectorized with Highway for each instruction set.
#include "kernels/host/row_block.hpp"

#include "kernels/host/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/row_block.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void write_row_blocks(const float* x, std::uint32_t columns, RowBlock* y) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::int16_t, decltype(d)> d16;
  constexpr unsigned kLanes = HWY_LANES(float);
  for (const float* end = x + columns; x != end; x += RowBlock::kElements, ++y) {
    auto largest = hn::Zero(d);
    for (unsigned at = 0; at < RowBlock::kElements; at += kLanes)
      largest = hn::Max(largest, hn::Abs(hn::LoadU(d, x + at)));
    const RowBlockScale scale(hn::GetLane(hn::MaxOfLanes(d, largest)));
    const auto inverse = hn::Set(d, scale.inverse);
    auto sum = hn::Zero(di);
    for (unsigned at = 0; at < RowBlock::kElements; at += kLanes) {
      const auto values = hn::NearestInt(hn::Mul(hn::LoadU(d, x + at), inverse));
      hn::StoreU(hn::DemoteTo(d16, values), d16, y->values + at);
      sum = hn::Add(sum, values);
    }
    y->scale = scale.scale;
    y->sum = scale.scale * static_cast<float>(hn::GetLane(hn::SumOfLanes(di, sum)));
  }
}

}  // namespace attacca::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::kernels {
HWY_EXPORT(write_row_blocks);
void to_row_blocks(const float* x, std::uint32_t columns, RowBlock* y) {
  HWY_DYNAMIC_DISPATCH(write_row_blocks)(x, columns, y);
}
}  // namespace attacca::kernels
#endif
