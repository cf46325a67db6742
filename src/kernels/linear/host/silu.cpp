// silu.cpp: gate_32 of silu.hpp, vectorized with Highway for each instruction set.
#include "kernels/linear/host/silu.hpp"

#include "kernels/host/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/host/silu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void gate_elements(float* gate, const float* up) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0f);
  for (unsigned at = 0; at < 32; at += HWY_LANES(float)) {
    const auto g = hn::LoadU(d, gate + at);
    // exp(88) is finite, and 1 + exp(88) makes the quotient as good as zero.
    const auto e = hn::Exp(d, hn::Min(hn::Neg(g), hn::Set(d, 88.0f)));
    hn::StoreU(hn::Mul(hn::Div(g, hn::Add(one, e)), hn::LoadU(d, up + at)), d, gate + at);
  }
}

}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::kernels::host {
HWY_EXPORT(gate_elements);
void gate_32(float* gate, const float* up) { HWY_DYNAMIC_DISPATCH(gate_elements)(gate, up); }
}  // namespace attacca::kernels::host
#endif
