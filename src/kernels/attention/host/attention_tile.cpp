// attention_tile.cpp: the inner loop of attention_tile.hpp, vectorized with Highway. Lines that see
// the same part of a tile share its loads, four at a time.
#include "kernels/attention/host/attention_tile.hpp"

#include <algorithm>
#include <limits>

#include "kernels/host/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/host/attention_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// It needs highway.h first.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 8>;
using Four = hn::CappedTag<float, 4>;
using Vector = hn::Vec<Floats>;
constexpr unsigned kLanes = hn::MaxLanes(Floats());
/// Lines computed together: their accumulators must fit the registers.
constexpr unsigned kTogether = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 4 : 2;

HWY_INLINE hn::Vec<Four> fold(hn::Vec<Four> v) { return v; }
template <class V>
HWY_INLINE hn::Vec<Four> fold(V v) {
  return hn::Add(hn::LowerHalf(Four(), v), hn::UpperHalf(Four(), v));
}

/// a0 + a1, a2 + a3, b0 + b1, b2 + b3.
HWY_INLINE hn::Vec<Four> add_pairs(hn::Vec<Four> a, hn::Vec<Four> b) {
  return hn::Add(hn::ConcatEven(Four(), b, a), hn::ConcatOdd(Four(), b, a));
}

/// weight[line][j] = query . key j
template <unsigned kCount>
HWY_INLINE void score(Lines& lines, const unsigned* index, const float* keys, std::size_t size) {
  const Floats d;
  constexpr unsigned kKeys = kCount == 1 ? 8 : 4;
  const float* query[kCount];
  for (unsigned i = 0; i < kCount; ++i) query[i] = lines.query + index[i] * size;
  for (unsigned j = 0; j < kTile; j += kKeys, keys += kKeys * size) {
    Vector sum[kCount][kKeys];
    HWY_UNROLL(4)
    for (auto& sums : sum) {
      HWY_UNROLL(8)
      for (Vector& one : sums) one = hn::Zero(d);
    }
    for (std::size_t at = 0; at < size; at += kLanes) {
      Vector key[kKeys];
      HWY_UNROLL(8)
      for (unsigned k = 0; k < kKeys; ++k) key[k] = hn::LoadU(d, keys + k * size + at);
      HWY_UNROLL(4)
      for (unsigned i = 0; i < kCount; ++i) {
        const Vector elements = hn::Load(d, query[i] + at);
        HWY_UNROLL(8)
        for (unsigned k = 0; k < kKeys; ++k) sum[i][k] = hn::MulAdd(elements, key[k], sum[i][k]);
      }
    }
    HWY_UNROLL(4)
    for (unsigned i = 0; i < kCount; ++i) {
      HWY_UNROLL(2)
      for (unsigned k = 0; k < kKeys; k += 4)
        hn::Store(add_pairs(add_pairs(fold(sum[i][k]), fold(sum[i][k + 1])),
                            add_pairs(fold(sum[i][k + 2]), fold(sum[i][k + 3]))),
                  Four(), lines.weight[index[i]] + j + k);
    }
  }
}

/// Turns the scores of a tile into weights. Never inlined, so that all lines round in the same way.
HWY_NOINLINE void weigh(Lines& lines, unsigned line, unsigned first, unsigned last) {
  const Floats d;
  float* weight = lines.weight[line];
  for (unsigned j = 0; j < first; ++j) weight[j] = -std::numeric_limits<float>::infinity();
  for (unsigned j = last; j < kTile; ++j) weight[j] = -std::numeric_limits<float>::infinity();

  Vector highest = hn::Load(d, weight);
  for (unsigned j = kLanes; j < kTile; j += kLanes)
    highest = hn::Max(highest, hn::Load(d, weight + j));
  const float before = lines.max[line];
  const float max = std::max(before, hn::GetLane(hn::MaxOfLanes(d, highest)));
  const Vector maxima = hn::Set(d, max);
  Vector total = hn::Zero(d);
  for (unsigned j = 0; j < kTile; j += kLanes) {
    const Vector w = hn::Exp(d, hn::Sub(hn::Load(d, weight + j), maxima));
    hn::Store(w, d, weight + j);
    total = hn::Add(total, w);
  }
  lines.max[line] = max;
  lines.factor[line] =
      before == max ? 1 : hn::GetLane(hn::Exp(d, hn::Sub(hn::Set(d, before), maxima)));
  lines.total[line] =
      lines.total[line] * lines.factor[line] + hn::GetLane(hn::SumOfLanes(d, total));
}

/// sum = sum * factor + the tile's values times their weights, over runs of `kRun` vectors.
template <unsigned kCount, unsigned kRun>
HWY_INLINE void add_values(Lines& lines, const unsigned* index, const Tile& tile,
                           std::size_t size) {
  const Floats d;
  float* to[kCount];
  const float* weight[kCount];
  for (unsigned i = 0; i < kCount; ++i) {
    to[i] = lines.sum + index[i] * size;
    weight[i] = lines.weight[index[i]];
  }
  for (std::size_t at = 0; at < size; at += kRun * kLanes) {
    Vector sum[kCount][kRun];
    HWY_UNROLL(4)
    for (unsigned i = 0; i < kCount; ++i) {
      const Vector factor = hn::Set(d, lines.factor[index[i]]);
      HWY_UNROLL(4)
      for (unsigned r = 0; r < kRun; ++r)
        sum[i][r] = hn::Mul(hn::Load(d, to[i] + at + r * kLanes), factor);
    }
    const float* values = tile.values + tile.first * size + at;
    for (std::size_t j = tile.first; j < tile.last; ++j, values += size) {
      Vector value[kRun];
      HWY_UNROLL(4)
      for (unsigned r = 0; r < kRun; ++r) value[r] = hn::LoadU(d, values + r * kLanes);
      HWY_UNROLL(4)
      for (unsigned i = 0; i < kCount; ++i) {
        const Vector by = hn::Set(d, weight[i][j]);
        HWY_UNROLL(4)
        for (unsigned r = 0; r < kRun; ++r) sum[i][r] = hn::MulAdd(by, value[r], sum[i][r]);
      }
    }
    HWY_UNROLL(4)
    for (unsigned i = 0; i < kCount; ++i) {
      HWY_UNROLL(4)
      for (unsigned r = 0; r < kRun; ++r) hn::Store(sum[i][r], d, to[i] + at + r * kLanes);
    }
  }
}

template <unsigned kCount>
void attend_together(Lines& lines, const unsigned* index, const Tile& tile, std::size_t size) {
  score<kCount>(lines, index, tile.keys, size);
  for (unsigned i = 0; i < kCount; ++i) weigh(lines, index[i], tile.first, tile.last);
  if (size % (4 * kLanes) == 0)
    add_values<kCount, 4>(lines, index, tile, size);
  else if (size % (2 * kLanes) == 0)
    add_values<kCount, 2>(lines, index, tile, size);
  else
    add_values<kCount, 1>(lines, index, tile, size);
}

void attend_to(Lines& lines, const unsigned* index, unsigned count, const Tile& tile,
               unsigned size) {
  for (; count >= kTogether; count -= kTogether, index += kTogether)
    attend_together<kTogether>(lines, index, tile, size);
  if (count == 3)
    attend_together<3>(lines, index, tile, size);
  else if (count == 2)
    attend_together<2>(lines, index, tile, size);
  else if (count == 1)
    attend_together<1>(lines, index, tile, size);
}

}  // namespace HWY_NAMESPACE
}  // namespace attacca::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::kernels::host {

HWY_EXPORT(attend_to);

void attend(Lines& lines, const unsigned* index, unsigned count, const Tile& tile,
            unsigned head_size) {
  HWY_DYNAMIC_DISPATCH(attend_to)(lines, index, count, tile, head_size);
}

}  // namespace attacca::kernels::host
#endif
