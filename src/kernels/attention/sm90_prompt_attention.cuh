// sm90_prompt_attention.cuh: the CUDA body of sm90_prompt_attention.hpp. A tile has up to 128
// lines: the queries of neighbouring rows and of all heads of a kv head's group, so that keys and
// values are loaded once for all of them. Positions are visited in steps of 128 that begin at
// multiples of 128. The producer and the lines of a consumer are in sm90_prompt_roles.cuh.
//
// Each consumer warpgroup has 64 lines. It starts the products of the next step's keys and of this
// step's weights and values together, then computes the next step's softmax while the latter run.
// The two warpgroups start products in turn, so that one multiplies while the other exponentiates.
// With the same bits, a consumer is that of sm90_prompt_in_order.cuh.
#pragma once

#include "kernels/attention/sm90_prompt_in_order.cuh"
#include "kernels/attention/sm90_prompt_roles.cuh"

namespace attacca::kernels::prompts {

/// Attends for 64 lines of each tile.
template <bool kIsBfloat, unsigned kSize, bool kRounded>
class Consumer : Lines<kSize, false, kRounded> {
  using Base = Lines<kSize, false, kRounded>;
  using Base::kFirstTurn, Base::kLines, Base::kScores, Base::kSums, Base::a_, Base::keys_state_,
      Base::values_state_, Base::warpgroup_;
  using typename Base::Queries;

 public:
  __device__ Consumer(const MixedAttentionArgs& args, unsigned char* memory) : Base(args, memory) {}

  __device__ void run() {
    Base::each_tile(
        [&](const Tile& tile, const Tile& next, Queries& queries) { attend(tile, next, queries); });
  }

 private:
  /// `loaded`: the tile's queries, then those of the next one. These are loaded during the last
  /// products, when the scores leave registers free. A tile without rows has none.
  __device__ void attend(const Tile& tile, const Tile& next, Queries& loaded) {
    store_queries(loaded);
    sm90::fence_for_wgmma();
    Base::sync_warpgroup();
    Base::find_positions(tile);
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      max_[half] = -INFINITY;
      total_[half] = 0;
    }
    const std::uint64_t queries = sm90::smem_descriptor(Base::queries_);
    std::uint32_t at = Base::begin_of(tile);
    const std::uint32_t last = tile.last();

    float scores[kScores] = {};
    std::uint32_t weights[kScores / 2];
    float sums[kSums] = {};
    float factors[2];

    Base::wait_full(keys_state_);
    sm90::fence_operands(scores);
    sm90::wgmma_fence();
    multiply_keys(scores, queries);
    sm90::wgmma_commit();
    sm90::wgmma_wait<0>();
    sm90::fence_operands(scores);
    Base::release(keys_state_);
    update_softmax(scores, at, factors);
    round(scores, weights);

    for (at += kStep; at <= last; at += kStep) {
      Base::wait_full(keys_state_);
      sm90::sync_some<256>(kFirstTurn + warpgroup_);
      sm90::fence_operands(scores);
      sm90::fence_operands(sums);
      sm90::fence_operands(weights);
      sm90::wgmma_fence();
      multiply_keys(scores, queries);
      sm90::wgmma_commit();
      Base::wait_full(values_state_);
      sm90::wgmma_fence();
      multiply_values(sums, weights);
      sm90::wgmma_commit();
      sm90::arrive_some<256>(kFirstTurn + 1 - warpgroup_);
      sm90::wgmma_wait<1>();
      sm90::fence_operands(scores);
      Base::release(keys_state_);
      update_softmax(scores, at, factors);
      sm90::wgmma_wait<0>();
      sm90::fence_operands(sums);
      sm90::fence_operands(weights);
      Base::release(values_state_);
      round(scores, weights);
#pragma unroll
      for (unsigned i = 0; i < kSums; ++i) sums[i] *= factors[i / 2 % 2];
    }

    Base::wait_full(values_state_);
    sm90::fence_operands(sums);
    sm90::fence_operands(weights);
    sm90::wgmma_fence();
    multiply_values(sums, weights);
    sm90::wgmma_commit();
    Base::load_queries(next, loaded);
    sm90::wgmma_wait<0>();
    sm90::fence_operands(sums);
    Base::release(values_state_);
    Base::sync_warpgroup();  // the queries have been read
    Base::store_results(tile, sums, [&](unsigned half) {
      float total = total_[half];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      return 1 / total;
    });
  }

  /// scores = queries of 64 lines times the keys of 128 positions.
  __device__ void multiply_keys(float (&scores)[kScores], std::uint64_t queries) {
    const std::uint64_t keys = sm90::smem_descriptor(Base::stage(keys_state_));
#pragma unroll
    for (unsigned i = 0; i < kSize / 16; ++i) {
      const std::uint64_t q = queries + i / 4 * (kLines * 128 / 16) + i % 4 * 2;
      const std::uint64_t k = keys + i / 4 * (Base::kBlockBytes / 16) + i % 4 * 2;
      if (i == 0)
        sm90::multiply_rows<kIsBfloat, false>(scores, q, k);
      else
        sm90::multiply_rows<kIsBfloat, true>(scores, q, k);
    }
  }
  /// sums += weights of 128 positions times their values.
  __device__ void multiply_values(float (&sums)[kSums],
                                  const std::uint32_t (&weights)[kScores / 2]) {
    const std::uint64_t values =
        sm90::column_descriptor<Base::kBlockBytes>(Base::stage(values_state_));
#pragma unroll
    for (unsigned i = 0; i < kStep / 16; ++i)
      sm90::multiply_columns<kIsBfloat>(sums, weights + 4 * i, values + i * (16 * 128 / 16));
  }

  /// Online softmax: turns scores into weights; the sums so far are to be multiplied by `factors`.
  __device__ void update_softmax(float (&scores)[kScores], std::uint32_t at, float (&factors)[2]) {
    if (!Base::sees_all(at)) Base::mask(scores, at);
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float most = max_[half];
#pragma unroll
      for (unsigned i = 2 * half; i < kScores; i += 4)
        most = fmaxf(most, fmaxf(scores[i], scores[i + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float base = most == -INFINITY ? 0 : most;  // a line may have seen nothing yet
      factors[half] = attending::fast_exp2(max_[half] - base);
      max_[half] = most;
      float total = 0;
#pragma unroll
      for (unsigned i = 2 * half; i < kScores; i += 4) {
        scores[i] = attending::fast_exp2(scores[i] - base);
        scores[i + 1] = attending::fast_exp2(scores[i + 1] - base);
        total += scores[i] + scores[i + 1];
      }
      total_[half] = total_[half] * factors[half] + total;
    }
  }
  __device__ static void round(const float (&scores)[kScores],
                               std::uint32_t (&weights)[kScores / 2]) {
#pragma unroll
    for (unsigned i = 0; i < kScores / 2; ++i)
      weights[i] = attending::pair_of<kIsBfloat>(scores[2 * i], scores[2 * i + 1]);
  }

  /// Each warp stores its own lines.
  __device__ void store_queries(const Queries& from) {
    const float factor = a_.scale * 1.4426950408889634f;
    __syncwarp();
    Base::template each_part<kSize / Base::kLoaded>([&](unsigned i, unsigned line, unsigned part) {
      if constexpr (kRounded)
        *reinterpret_cast<float4*>(Base::eight(line, part)) = from[i];
      else
        *reinterpret_cast<uint2*>(Base::eight(line, part / 2) + part % 2 * 8) = {
            attending::pair_of<kIsBfloat>(from[i].x * factor, from[i].y * factor),
            attending::pair_of<kIsBfloat>(from[i].z * factor, from[i].w * factor)};
    });
  }
  float max_[2];    // in units of log2
  float total_[2];  // of this thread's positions
};

/// `kInOrder`: with the bits that a row has alone. `kRounded`: see
/// MixedAttentionArgs::has_rounded_queries.
template <bool kIsBfloat, unsigned kSize, bool kInOrder = false, bool kRounded = false>
__device__ inline void attend_prompts(WaitingThread& t, const MixedAttentionArgs& a,
                                      unsigned char* memory) {
  using Bytes = Sizes<kSize, kInOrder>;
  static_assert(sizeof(Shared<kInOrder>) <= Bytes::kHeaderBytes &&
                Plan::kScratchWords * 4 <= Bytes::kQueryBytes);
  Shared<kInOrder>& shared = *reinterpret_cast<Shared<kInOrder>*>(memory);
  if (threadIdx.x == 0) shared.ring.init();
  t.wait_for_producers();
  shared.plan.make(a, reinterpret_cast<std::uint32_t*>(memory + Bytes::kHeaderBytes));
  t.release_consumers();
  if (shared.plan.tiles() <= blockIdx.x) return;
  if (threadIdx.x < 128) {
    sm90::give_registers<40>();
    Producer<kSize, kInOrder>(a, memory).run();
  } else {
    sm90::take_registers<232>();
    if constexpr (kInOrder)
      OrderedConsumer<kIsBfloat, kSize>(a, memory).run();
    else
      Consumer<kIsBfloat, kSize, kRounded>(a, memory).run();
  }
  shared.ring.report(t);
}

}  // namespace attacca::kernels::prompts
