// logit_groups.cpp: maxima, finiteness and masses of logit_groups.hpp, vectorized with Highway for
// each instruction set.
#include "kernels/sample/host/logit_groups.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host/simd.hpp"
#include "kernels/sample/sampling.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sample/host/logit_groups.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;

/// NaN counts as minus infinity.
float max_of(const float* x, std::size_t count) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const float lowest = -std::numeric_limits<float>::infinity();
  auto highest = hn::Set(d, lowest);
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    const auto v = hn::LoadU(d, x + at);
    highest = hn::IfThenElse(hn::Gt(v, highest), v, highest);
  }
  float max = hn::GetLane(hn::MaxOfLanes(d, highest));
  for (; at < count; ++at)
    if (x[at] > max) max = x[at];
  return max;
}

/// maxima[i] = the maximum of x[i * group, (i + 1) * group)
void maxima_of(const float* x, std::size_t count, std::size_t group, float* maxima) {
  for (std::size_t at = 0; at < count; at += group)
    *maxima++ = max_of(x + at, std::min(group, count - at));
}

bool is_finite(const float* x, std::size_t count) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes)
    if (!hn::AllTrue(d, hn::IsFinite(hn::LoadU(d, x + at)))) return false;
  for (; at < count; ++at)
    if (!std::isfinite(x[at])) return false;
  return true;
}

/// Two masses from 2^24 * 2^-x and the octaves to shift by.
template <class D, class V>
HWY_INLINE hn::Vec<hn::RepartitionToWide<D>> shifted(D, V powers, V octaves) {
  const hn::Rebind<std::uint32_t, hn::Half<D>> du;
  const hn::RepartitionToWide<D> dw;
  const auto wide = hn::PromoteTo(dw, hn::BitCast(du, powers));
  return hn::Shr(hn::ShiftLeft<16>(wide), hn::PromoteTo(dw, hn::BitCast(du, octaves)));
}

/// masses[i] = mass_of(x[i], max, inverse)
void masses_of(const float* x, std::size_t count, float max, float inverse, std::uint64_t* masses) {
  const hn::CappedTag<float, 4> d;
  const hn::Rebind<std::int32_t, decltype(d)> di;
  const hn::Half<decltype(di)> dh;
  const hn::Rebind<std::uint32_t, decltype(d)> du;
  const hn::RepartitionToWide<decltype(du)> dw;
  const auto maxima = hn::Set(d, max);
  const auto inverses = hn::Set(d, inverse);
  const auto log2e = hn::Set(d, MassTerms::kLog2E);
  std::size_t at = 0;
  for (; at + 4 <= count; at += 4) {
    const auto logits = hn::LoadU(d, x + at);
    const auto distance = hn::Mul(hn::Sub(maxima, logits), inverses);
    const auto is_near = hn::Lt(distance, hn::Set(d, MassTerms::kFarthest));
    if (!hn::AllTrue(d, hn::And(is_near, hn::Lt(logits, maxima)))) {
      for (std::size_t i = at; i < at + 4; ++i) masses[i] = mass_of(x[i], max, inverse);
      continue;
    }
    const auto octaves = hn::ConvertTo(di, hn::Mul(distance, log2e));
    const auto rest = hn::MulSub(distance, log2e, hn::ConvertTo(d, octaves));
    auto power = hn::MulAdd(hn::Set(d, MassTerms::kPower5), rest, hn::Set(d, MassTerms::kPower4));
    power = hn::MulAdd(power, rest, hn::Set(d, MassTerms::kPower3));
    power = hn::MulAdd(power, rest, hn::Set(d, MassTerms::kPower2));
    power = hn::MulAdd(power, rest, hn::Set(d, MassTerms::kPower1));
    power = hn::MulAdd(power, rest, hn::Set(d, MassTerms::kPower0));
    const auto whole = hn::ConvertTo(di, power);
    hn::StoreU(shifted(du, hn::LowerHalf(dh, whole), hn::LowerHalf(dh, octaves)), dw, masses + at);
    hn::StoreU(shifted(du, hn::UpperHalf(dh, whole), hn::UpperHalf(dh, octaves)), dw,
               masses + at + 2);
  }
  for (; at < count; ++at) masses[at] = mass_of(x[at], max, inverse);
}

}  // namespace HWY_NAMESPACE
}  // namespace attacca::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::kernels::host {

HWY_EXPORT(max_of);
HWY_EXPORT(maxima_of);
HWY_EXPORT(is_finite);
HWY_EXPORT(masses_of);

LogitGroups::LogitGroups(std::span<const float> logits, std::vector<float>& maxima)
    : logits_(logits) {
  maxima.resize((logits.size() + kSize - 1) / kSize);
  HWY_DYNAMIC_DISPATCH(maxima_of)(logits.data(), logits.size(), kSize, maxima.data());
  maxima_ = maxima;
  max_ = HWY_DYNAMIC_DISPATCH(max_of)(maxima_.data(), maxima_.size());
}

std::int32_t LogitGroups::argmax() const {
  const auto found = std::find(maxima_.begin(), maxima_.end(), max_);
  if (found == maxima_.end()) return 0;
  const auto group = static_cast<std::size_t>(found - maxima_.begin());
  const auto in_group = logits(group);
  const auto at = std::find(in_group.begin(), in_group.end(), max_);
  return at == in_group.end()
             ? 0
             : first_token(group) + static_cast<std::int32_t>(at - in_group.begin());
}

bool LogitGroups::is_finite() const {
  return HWY_DYNAMIC_DISPATCH(is_finite)(logits_.data(), logits_.size());
}

double LogitGroups::log_of_sum() const {
  std::uint64_t total = 0;
  std::uint64_t memory[kSize];
  for (std::size_t group = 0; group < count(); ++group)
    for (const std::uint64_t mass : masses(group, 1, memory)) total += mass;
  return max_ + std::log(static_cast<double>(total) / static_cast<double>(kFullMass));
}

std::span<const std::uint64_t> LogitGroups::masses(std::size_t group, float inverse,
                                                   std::uint64_t (&to)[kSize]) const {
  const auto in_group = logits(group);
  HWY_DYNAMIC_DISPATCH(masses_of)(in_group.data(), in_group.size(), max_, inverse, to);
  return {to, in_group.size()};
}

}  // namespace attacca::kernels::host
#endif
