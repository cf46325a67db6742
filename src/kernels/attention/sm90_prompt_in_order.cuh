// sm90_prompt_in_order.cuh: a consumer of sm90_prompt_attention.cuh that gives rows the bits they
// have alone: in the order of attention_fold.cuh, with the same 16 positions and the same
// dimensions in an instruction. wgmma has the bits of mma. Masked positions add exact zeros.
//
// A step has four chains. Their weights are multiplied by 64 dimensions of the values after
// another; while one chain is folded the next one is multiplied. So the sums of a split that is one
// step long need registers for 64 dimensions only. Those of a longer split take the place of the
// sums of the splits before it, which lie in local memory meanwhile.
//
// A warpgroup multiplies this step's weights and values, starts the products of the next step's
// keys and hands the turn to the other.
#pragma once

#include "kernels/attention/attention_elements.cuh"
#include "kernels/attention/attention_fold.cuh"
#include "kernels/attention/attention_splits.hpp"
#include "kernels/attention/sm90_prompt_roles.cuh"

namespace attacca::kernels::prompts {

/// Attends for 64 lines of each tile.
template <bool kIsBfloat, unsigned kSize>
class OrderedConsumer : Lines<kSize, true> {
  using Base = Lines<kSize, true>;
  using Base::a_, Base::kFirstTurn, Base::kFirstWarpgroup, Base::kLines, Base::kScores, Base::kSums,
      Base::keys_state_, Base::values_state_, Base::warpgroup_, Base::position_;
  using typename Base::Queries;
  using Fold = attending::Fold;

 public:
  __device__ OrderedConsumer(const MixedAttentionArgs& args, unsigned char* memory)
      : Base(args, memory), splits_(FixedSplits::of_window(args.window)) {}

  __device__ void run() {
    Base::each_tile(
        [&](const Tile& tile, const Tile& next, Queries& queries) { attend(tile, next, queries); });
  }

 private:
  static constexpr unsigned kChains = kStep / attending::kChain;
  static constexpr unsigned kPart = 64;  // dimensions that are multiplied at a time
  static constexpr unsigned kPartSums = kPart / 2;
  static_assert(attending::kChain == 32 && FixedSplits::kLeast == kStep);

  /// Where a step lies in its split, as far as the tile sees it.
  struct Place {
    bool begins;
    bool ends;
    __device__ bool is_whole() const { return begins && ends; }
  };
  /// A step's weights, and how their products are folded.
  struct Step {
    std::uint32_t weights[kScores / 2];  // eight of a chain, four for each 16 positions
    bool adds;  // all bases are 0 or of lines that see nothing, so that folds are additions
    // Otherwise:
    float rescale[kChains][2];  // sums of a chain's first 16 positions
    Fold::Weights chains[kChains][2];
    Fold::Weights split[2];
  };
  /// The base and the total of some positions.
  struct Stats {
    float max[2];
    float total[2];
    __device__ void clear() {
      max[0] = max[1] = -INFINITY;
      total[0] = total[1] = 0;
    }
  };

  /// `loaded`: the tile's queries, then those of the next one.
  __device__ void attend(const Tile& tile, const Tile& next, Queries& loaded) {
    store_queries(loaded);
    sm90::fence_for_wgmma();
    Base::sync_warpgroup();
    Base::find_positions(tile);
    all_.clear();
    std::uint32_t at = Base::begin_of(tile);
    const std::uint32_t last = tile.last();
    std::uint32_t split_end = splits_.begin(splits_.at(at) + 1);
    Place place{true, at + kStep == split_end || at + kStep > last};

    float sums[kSums] = {};
    float kept[kSums];
    float scores[kScores] = {};
    Step step;
    Base::wait_full(keys_state_);
    start_scores(scores);
    sm90::wgmma_wait<0>();
    sm90::fence_operands(scores);
    Base::release(keys_state_);
    weigh(scores, at, place, step);

    for (at += kStep; at <= last; at += kStep) {
      Base::wait_full(keys_state_);
      Base::wait_full(values_state_);
      sm90::sync_some<256>(kFirstTurn + warpgroup_);
      add_values(step, place, sums, kept);
      start_scores(scores);
      sm90::arrive_some<256>(kFirstTurn + 1 - warpgroup_);
      Base::release(values_state_);
      place.begins = at == split_end;
      if (place.begins) split_end += 1u << splits_.bits_at(split_end);
      place.ends = at + kStep == split_end || at + kStep > last;
      sm90::wgmma_wait<0>();
      sm90::fence_operands(scores);
      Base::release(keys_state_);
      weigh(scores, at, place, step);
    }

    Base::wait_full(values_state_);
    add_values(step, place, sums, kept);
    Base::release(values_state_);
    Base::load_queries(next, loaded);
    Base::sync_warpgroup();  // the queries have been read
    Base::store_results(tile, sums, [&](unsigned half) { return 1 / all_.total[half]; });
  }

  /// Each warp stores its own lines, and their rounding errors behind all queries.
  __device__ void store_queries(const Queries& from) {
    const float factor = a_.scale * 1.4426950408889634f;
    __syncwarp();
    Base::template each_part<kSize / 4>([&](unsigned i, unsigned line, unsigned part) {
      const float4 q{
          attending::product<true>(from[i].x, factor), attending::product<true>(from[i].y, factor),
          attending::product<true>(from[i].z, factor), attending::product<true>(from[i].w, factor)};
      const uint2 pairs{attending::pair_of<kIsBfloat>(q.x, q.y),
                        attending::pair_of<kIsBfloat>(q.z, q.w)};
      const unsigned place = Base::place_of(part);
      unsigned char* const to = Base::eight(line, place / 2) + place % 2 * 8;
      *reinterpret_cast<uint2*>(to) = pairs;
      *reinterpret_cast<uint2*>(to + Base::Bytes::kQueryBytes) = {
          attending::rest_of<kIsBfloat>(q.x, q.y, pairs.x),
          attending::rest_of<kIsBfloat>(q.z, q.w, pairs.y)};
    });
  }

  // Scores.

  /// scores = queries of 64 lines times the keys of 128 positions: for 32 dimensions after another,
  /// as OnlineSoftmax::score computes them.
  __device__ void start_scores(float (&scores)[kScores]) {
    const std::uint64_t queries = sm90::smem_descriptor(Base::queries_);
    const std::uint64_t rests = sm90::smem_descriptor(Base::queries_ + Base::Bytes::kQueryBytes);
    const std::uint64_t keys = sm90::smem_descriptor(Base::stage(keys_state_));
    sm90::fence_operands(scores);
    sm90::wgmma_fence();
#pragma unroll
    for (unsigned i = 0; i < kSize / 8; ++i) {
      const unsigned sixteen = i / 4 * 2 + i % 2;
      const std::uint64_t q =
          (i / 2 % 2 == 0 ? queries : rests) + sixteen / 4 * (kLines * 128 / 16) + sixteen % 4 * 2;
      const std::uint64_t k = keys + sixteen / 4 * (Base::kBlockBytes / 16) + sixteen % 4 * 2;
      if (i == 0)
        sm90::multiply_rows<kIsBfloat, false>(scores, q, k);
      else
        sm90::multiply_rows<kIsBfloat, true>(scores, q, k);
    }
    sm90::wgmma_commit();
  }

  // Weights.

  __device__ void weigh(float (&scores)[kScores], std::uint32_t at, const Place& place,
                        Step& step) {
    const bool sees_all = Base::sees_all(at);
    if (!sees_all) Base::mask(scores, at);
    if (place.begins) split_.clear();
    step.adds = sm90::all_of<128>(kFirstWarpgroup + warpgroup_, has_bases_0(scores, at, sees_all));
    if (step.adds) {
#pragma unroll
      for (unsigned i = 0; i < kScores / 2; ++i)
        step.weights[i] = attending::pair_of<kIsBfloat>(attending::fast_exp2(scores[2 * i]),
                                                        attending::fast_exp2(scores[2 * i + 1]));
      add_totals(step, place, at);
    } else {
      find_bases(scores, step);
      fold_totals(step, place);
    }
  }
  /// Whether no base of this warp's lines is other than 0, by the rule of next_base. It may be
  /// false where a window hides half of a chain.
  __device__ bool has_bases_0(const float (&scores)[kScores], std::uint32_t at,
                              bool sees_all) const {
    constexpr float kReach = attending::kReach<kIsBfloat>;
    bool is_within = true;
    std::uint32_t have = 0;  // a bit for each line and chain
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const auto is_0 = [](float base) { return base == 0 || base == -INFINITY; };
      is_within = is_within && is_0(split_.max[half]) && is_0(all_.max[half]);
      float highest = -INFINITY;
#pragma unroll
      for (unsigned chain = 0; chain < kChains; ++chain) {
        const auto most = [&](unsigned i) {
          const float* two = scores + 16 * chain + 4 * i + 2 * half;
          return fmaxf(fmaxf(two[0], two[1]), fmaxf(two[4], two[5]));
        };
        const float first = most(0);
        highest = fmaxf(highest, fmaxf(first, most(2)));
        const std::uint32_t bit = 1u << (half * kChains + chain);
        if (first >= -kReach) have |= bit;
        const std::uint32_t begin = at + chain * attending::kChain;
        if (!sees_all && (begin > position_[half] ||
                          begin + attending::kChain <= Base::first_seen(position_[half])))
          have |= bit;
      }
      is_within = is_within && highest <= kReach;
    }
    have |= __shfl_xor_sync(~0u, have, 1);
    have |= __shfl_xor_sync(~0u, have, 2);
    return is_within && have == (1u << 2 * kChains) - 1;
  }
  /// Online softmax, 16 positions after another, as OnlineSoftmax::add_to_chain does.
  __device__ void find_bases(const float (&scores)[kScores], Step& step) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      Fold fold{split_.max[half]};
#pragma unroll
      for (unsigned chain = 0; chain < kChains; ++chain) {
        float max = -INFINITY;
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) {
          const float* two = scores + 16 * chain + 8 * i + 2 * half;
          float most = fmaxf(fmaxf(two[0], two[1]), fmaxf(two[4], two[5]));
          most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
          most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
          const float before = max;
          max = attending::next_base<kIsBfloat>(before, most);
          const float base = attending::finite_base(max);
          step.rescale[chain][half] = attending::fast_exp2(before - base);
#pragma unroll
          for (unsigned j = 0; j < 2; ++j)
            step.weights[8 * chain + 4 * i + 2 * j + half] =
                attending::pair_of<kIsBfloat>(attending::fast_exp2(two[4 * j] - base),
                                              attending::fast_exp2(two[4 * j + 1] - base));
        }
        step.chains[chain][half] = fold.add(max);
      }
      split_.max[half] = fold.max;
    }
  }

  // Totals: the sums of one more dimension, whose values are all 1.

  /// `rescale` changes the sums of a chain's first 16 positions.
  template <class Rescale>
  __device__ static void multiply_ones(const Step& step, unsigned chain, float (&totals)[4],
                                       const Rescale& rescale) {
    constexpr std::uint32_t kOne = attending::kOnes<kIsBfloat>;
    const std::uint32_t* w = step.weights + 8 * chain;
    attending::mma_first<kIsBfloat>(totals, w[0], w[1], w[2], w[3], kOne, kOne);
    rescale(totals);
    attending::mma<kIsBfloat>(totals, w[4], w[5], w[6], w[7], kOne, kOne);
  }
  __device__ void add_totals(const Step& step, const Place& place, std::uint32_t at) {
#pragma unroll
    for (unsigned chain = 0; chain < kChains; ++chain) {
      float totals[4];
      multiply_ones(step, chain, totals, [](float(&)[4]) {});
#pragma unroll
      for (unsigned half = 0; half < 2; ++half)
        split_.total[half] = __fadd_rn(split_.total[half], totals[2 * half]);
    }
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const bool sees_some =
          at <= position_[half] && at + kStep > Base::first_seen(position_[half]);
      if (sees_some) split_.max[half] = 0;
      if (!place.is_whole()) continue;
      all_.max[half] = fmaxf(all_.max[half], split_.max[half]);
      all_.total[half] = __fadd_rn(all_.total[half], split_.total[half]);
    }
  }
  __device__ void fold_totals(Step& step, const Place& place) {
#pragma unroll
    for (unsigned chain = 0; chain < kChains; ++chain) {
      float totals[4];
      multiply_ones(step, chain, totals, [&](float(&first)[4]) {
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) first[j] *= step.rescale[chain][j / 2];
      });
#pragma unroll
      for (unsigned half = 0; half < 2; ++half)
        split_.total[half] = step.chains[chain][half].folded(split_.total[half], totals[2 * half]);
    }
    if (place.is_whole()) fold_split(step.split);
  }
  /// Folds the split's total behind those before it; `weights` are those of the sums.
  __device__ void fold_split(Fold::Weights (&weights)[2]) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      Fold fold{all_.max[half]};
      weights[half] = fold.add(split_.max[half]);
      all_.max[half] = fold.max;
      all_.total[half] = weights[half].folded(all_.total[half], split_.total[half]);
    }
  }

  // Sums. Of a split that is one step long they are folded into `sums` at once. Otherwise `sums`
  // are the split's, and `kept` those of the splits before it.

  __device__ void add_values(const Step& step, const Place& place, float (&sums)[kSums],
                             float (&kept)[kSums]) {
    if (place.begins && !place.ends) {
      float* const to = sm90::in_memory(kept);
#pragma unroll
      for (unsigned i = 0; i < kSums; ++i) {
        to[i] = sums[i];
        sums[i] = 0;
      }
    }
    if (step.adds)
      add_chains(step, place.is_whole(), sums);
    else
      fold_chains(step, place.is_whole(), sums);
    if (!place.begins && place.ends) {
      Fold::Weights weights[2];
      fold_split(weights);
      const float* const from = sm90::in_memory(kept);
#pragma unroll
      for (unsigned i = 0; i < kSums; ++i) sums[i] = weights[i / 2 % 2].folded(from[i], sums[i]);
    }
  }
  __device__ std::uint64_t values_of(unsigned part) const {
    return sm90::column_descriptor<Base::kBlockBytes>(Base::stage(values_state_)) +
           part * (Base::kBlockBytes / 16);
  }
  /// Starts the product of a chain's weights and a part of the values.
  __device__ void start_chain(const Step& step, unsigned part, unsigned chain,
                              float (&products)[kPartSums]) const {
    const std::uint64_t values = values_of(part) + chain * (32 * 128 / 16);
    sm90::fence_operands(products);
    sm90::wgmma_fence();
    sm90::multiply_columns<kIsBfloat, false>(products, step.weights + 8 * chain, values);
    sm90::multiply_columns<kIsBfloat, true>(products, step.weights + 8 * chain + 4,
                                            values + 16 * 128 / 16);
    sm90::wgmma_commit();
  }
  __device__ void add_chains(const Step& step, bool is_whole, float (&sums)[kSums]) const {
    constexpr unsigned kProducts = kSums / kPartSums * kChains;
    float products[2][kPartSums] = {};
    float split[kPartSums];
    start_chain(step, 0, 0, products[0]);
#pragma unroll
    for (unsigned i = 0; i < kProducts; ++i) {
      if (i + 1 < kProducts) {
        start_chain(step, (i + 1) / kChains, (i + 1) % kChains, products[(i + 1) % 2]);
        sm90::wgmma_wait<1>();
      } else {
        sm90::wgmma_wait<0>();
      }
      sm90::fence_operands(products[i % 2]);
      float* const all = sums + i / kChains * kPartSums;
#pragma unroll
      for (unsigned j = 0; j < kPartSums; ++j) {
        if (i % kChains == 0) split[j] = is_whole ? 0 : all[j];
        split[j] = __fadd_rn(split[j], products[i % 2][j]);
        if (i % kChains == kChains - 1) all[j] = is_whole ? __fadd_rn(all[j], split[j]) : split[j];
      }
    }
  }
  __device__ void fold_chains(const Step& step, bool is_whole, float (&sums)[kSums]) const {
    float products[kPartSums] = {};
    float split[kPartSums];
#pragma unroll
    for (unsigned i = 0; i < kSums / kPartSums * kChains; ++i) {
      const unsigned chain = i % kChains;
      const std::uint64_t values = values_of(i / kChains) + chain * (32 * 128 / 16);
      float* const all = sums + i / kChains * kPartSums;
      sm90::fence_operands(products);
      sm90::wgmma_fence();
      sm90::multiply_columns<kIsBfloat, false>(products, step.weights + 8 * chain, values);
      sm90::wgmma_commit();
      sm90::wgmma_wait<0>();
      sm90::fence_operands(products);
#pragma unroll
      for (unsigned j = 0; j < kPartSums; ++j) products[j] *= step.rescale[chain][j / 2 % 2];
      sm90::fence_operands(products);
      sm90::wgmma_fence();
      sm90::multiply_columns<kIsBfloat, true>(products, step.weights + 8 * chain + 4,
                                              values + 16 * 128 / 16);
      sm90::wgmma_commit();
      sm90::wgmma_wait<0>();
      sm90::fence_operands(products);
#pragma unroll
      for (unsigned j = 0; j < kPartSums; ++j) {
        const unsigned half = j / 2 % 2;
        if (chain == 0) split[j] = is_whole ? 0 : all[j];
        split[j] = step.chains[chain][half].folded(split[j], products[j]);
        if (chain == kChains - 1)
          all[j] = is_whole ? step.split[half].folded(all[j], split[j]) : split[j];
      }
    }
  }

  FixedSplits splits_;
  Stats split_;  // of the positions so far of this split
  Stats all_;    // of the splits before it
};

}  // namespace attacca::kernels::prompts
