// rope_store.cpp: applies norms and RoPE and stores keys and values on the host, vectorized with
// Highway. Angles are computed in double precision, once for each token: in floats, late positions
// are off by more than the sine's own precision.
#include "kernels/attention/host/rope_store.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/blocks.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/host/rope_store.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Rotates the first 2 * half elements of `x`, pair i by (cosines[i], sines[i]).
void rotate(float* x, const float* cosines, const float* sines, std::uint32_t half,
            RotaryPairs pairs) {
  const hn::CappedTag<float, 8> d;
  const std::uint32_t lanes = static_cast<std::uint32_t>(hn::Lanes(d));
  const bool is_adjacent = pairs == RotaryPairs::adjacent;
  std::uint32_t at = 0;
  for (; at + lanes <= half; at += lanes) {
    const auto c = hn::LoadU(d, cosines + at);
    const auto s = hn::LoadU(d, sines + at);
    hn::Vec<decltype(d)> a;
    hn::Vec<decltype(d)> b;
    if (is_adjacent) {
      hn::LoadInterleaved2(d, x + 2 * at, a, b);
    } else {
      a = hn::LoadU(d, x + at);
      b = hn::LoadU(d, x + at + half);
    }
    const auto rotated_a = hn::NegMulAdd(b, s, hn::Mul(a, c));
    const auto rotated_b = hn::MulAdd(a, s, hn::Mul(b, c));
    if (is_adjacent) {
      hn::StoreInterleaved2(rotated_a, rotated_b, d, x + 2 * at);
    } else {
      hn::StoreU(rotated_a, d, x + at);
      hn::StoreU(rotated_b, d, x + at + half);
    }
  }
  for (; at < half; ++at) {
    float& a = is_adjacent ? x[2 * at] : x[at];
    float& b = is_adjacent ? x[2 * at + 1] : x[at + half];
    const float rotated = a * cosines[at] - b * sines[at];
    b = b * cosines[at] + a * sines[at];
    a = rotated;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attacca::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::kernels::host {
namespace {

HWY_EXPORT(rotate);

constexpr std::uint32_t kMaxHalf = 128;  // of a head of 256

}  // namespace

void rope_store(const RopeStoreArgs& a, unsigned block, unsigned blocks) {
  const std::uint32_t size = a.kv.head_size;
  const std::uint32_t half = a.rotary_size / 2;
  const std::uint64_t row_size = 1ull * (a.heads + 2 * a.kv.kv_heads) * size;
  float cosines[kMaxHalf];
  float sines[kMaxHalf];
  const auto [first, last] = rows_of_block(*a.rows.count, block, blocks);
  for (std::uint32_t row = first; row < last; ++row) {
    for (std::uint32_t at = 0; at < half; ++at) {
      const double angle = static_cast<double>(a.positions[row]) * a.frequencies[at];
      cosines[at] = static_cast<float>(std::cos(angle));
      sines[at] = static_cast<float>(std::sin(angle));
    }
    float* x = a.qkv + row * row_size;
    for (std::uint32_t head = 0; head < a.heads + a.kv.kv_heads; ++head, x += size) {
      const float* norm = head < a.heads ? a.query_norm : a.key_norm;
      if (norm) normalize(x, norm, size, a.epsilon, x);
      HWY_DYNAMIC_DISPATCH(rotate)(x, cosines, sines, half, a.pairs);
    }
    const float* values = x;
    const float* keys = x - 1ull * a.kv.kv_heads * size;
    for (std::uint32_t head = 0; head < a.kv.kv_heads; ++head) {
      const std::uint64_t to = a.kv.offset(static_cast<std::uint32_t>(a.slots[row]),
                                           static_cast<std::uint32_t>(a.positions[row]), head);
      std::copy_n(keys + 1ull * head * size, size, a.kv.keys_as<float>() + to);
      std::copy_n(values + 1ull * head * size, size, a.kv.values_as<float>() + to);
    }
  }
}

}  // namespace attacca::kernels::host
#endif
