// attention_fixed_chunks.cuh: attention for neighbouring rows of one slot, as attention_chunks.cuh,
// with the bits that single rows have where splits are fixed. A line is computed as
// attention_warp.cuh and attention_rows.cuh compute it: 16 positions at a time, the same dimensions
// in an instruction, a quarter of a split from fresh state; quarters are folded into their split,
// and splits into the result. Masked positions add exact zeros.
#pragma once

#include "kernels/attention/attention_chunks.cuh"
#include "kernels/attention/attention_elements.cuh"
#include "kernels/attention/attention_rows.cuh"

namespace attacca::kernels::attending {

template <class Args, KvType kType, unsigned kSize>
class FixedChunkTiles : ChunkLines<Args, kType, kSize> {
  using Lines = ChunkLines<Args, kType, kSize>;
  using Lines::a_, Lines::group_, Lines::lane_, Lines::warp_, Lines::kIsBfloat;

 public:
  static constexpr unsigned kStep = 32;  // positions
  static_assert(kSize <= 128, "sums of larger heads leave no registers for the queries");
  static_assert(FixedSplits::kLeast / 4 % kStep == 0);

  struct Stage {
    alignas(16) std::uint16_t keys[kStep * kSize];
    alignas(16) std::uint16_t values[kStep * kSize];
  };
  /// Sums that each lane has put aside.
  struct Sums {
    float4 of[kSize / 8][32];
  };
  struct Shared {
    Stage stages[2];
    Sums split[kWarps];  // of its quarters before this one
    Sums all[kWarps];    // of the splits before this one

    /// Where a warp's queries lie first, and its results last.
    __device__ std::uint16_t* lines_of(unsigned warp) {
      return reinterpret_cast<std::uint16_t*>(all + warp);
    }
  };

  __device__ FixedChunkTiles(const Args& args, Shared& shared, const Cut& cut)
      : Lines(args, cut), shared_(shared), splits_(cut.fixed) {}

  /// REQUIRES: no thread still uses the shared memory. Returns without a barrier.
  __device__ void run(const Chunk& chunk) {
    const std::uint32_t last = chunk.position + chunk.rows - 1;
    const std::uint32_t begin = Lines::first_seen(chunk.position) / kStep * kStep;
    const std::uint32_t steps = (last - begin) / kStep + 1;
    Lines::load_pages(chunk, begin, last);
    load(chunk, begin, begin, last, 0);
    cp_async_commit();
    store_queries(chunk);
#pragma unroll
    for (unsigned i = 0; i < kSize / 16; ++i) {
      queries_[i] = load_query(i);
      rests_[i] = load_query(kSize / 16 + i);
    }
    __syncwarp();
    clear(chunk);
    std::uint32_t split = splits_.at(begin);
    std::uint32_t split_begin = splits_.begin(split);
    std::uint32_t quarter = splits_.size(split) / 4;
    for (std::uint32_t step = 0; step < steps; ++step) {
      const std::uint32_t at = begin + step * kStep;
      cp_async_wait<0>();
      __syncthreads();
      if (step + 1 < steps) load(chunk, begin, at + kStep, last, (step + 1) % 2);
      cp_async_commit();
      attend(shared_.stages[step % 2], at, chunk);
      const std::uint32_t done = at + kStep - split_begin;
      const bool is_end = step + 1 == steps;
      if (!is_end && done % quarter != 0) continue;
      const bool ends_split = done == 4 * quarter;
      end_quarter(ends_split, is_end);
      if (ends_split) {
        split_begin += done;
        quarter = splits_.size(++split) / 4;
      }
    }
    store_results(chunk);
  }

 private:
  __device__ void load(const Chunk& chunk, std::uint32_t begin, std::uint32_t at,
                       std::uint32_t last, unsigned stage) {
    Stage& to = shared_.stages[stage];
    Lines::template load<kStep>(
        chunk, begin, at, last,
        [&](unsigned row, unsigned dimension) { return to.keys + in_keys(row, dimension); },
        [&](unsigned row, unsigned dimension) { return to.values + in_values(row, dimension); });
  }
  /// Where eight dimensions lie in rows of keys. A quarter of a warp reads 32 dimensions
  /// of two rows, so that these are in different banks.
  __device__ static unsigned in_keys(unsigned row, unsigned dimension) {
    return row * kSize + (dimension ^ (row % 2 * 32));
  }
  /// Where they lie in rows of values, of which eight are read at once.
  __device__ static unsigned in_values(unsigned row, unsigned dimension) {
    return row * kSize + (dimension ^ (row % 8 * 8));
  }
  __device__ static void store_eight(std::uint16_t* to, const unsigned char* from, bool is_there) {
    Eight<kType> eight;
    eight.load(from, is_there);
    const Pairs pairs = eight.pairs();
    *reinterpret_cast<uint4*>(to) = {pairs.words[0], pairs.words[1], pairs.words[2],
                                     pairs.words[3]};
  }

  // Queries. Line i is row i / group and head i % group.

  /// Each warp stores its own, and behind them their rounding errors.
  __device__ void store_queries(const Chunk& chunk) {
    const float factor = a_.scale * 1.4426950408889634f;
    auto* const words = reinterpret_cast<std::uint32_t*>(shared_.lines_of(warp_));
    for (unsigned line = 0; line < 16; ++line) {
      const std::uint32_t row = (warp_ * 16 + line) / group_;
      const std::uint32_t head = chunk.kv_head * group_ + (warp_ * 16 + line) % group_;
      const float* q = a_.q + std::uint64_t{chunk.row + row} * a_.q_stride +
                       std::uint64_t{head} * a_.kv.head_size;
      for (unsigned at = 2 * lane_; at < kSize; at += 64) {
        const bool is_there = row < chunk.rows && at < a_.kv.head_size;
        const float2 two = is_there ? *reinterpret_cast<const float2*>(q + at) : float2{};
        const float first = two.x * factor;
        const float second = two.y * factor;
        const std::uint32_t pair = pair_of<kIsBfloat>(first, second);
        words[in_queries(line, at)] = pair;
        words[kSize / 16 * 128 + in_queries(line, at)] = rest_of<kIsBfloat>(first, second, pair);
      }
    }
    __syncwarp();
  }
  /// Where a pair of a line's dimensions lies: the four words that a lane needs for an instruction
  /// are neighbours. An instruction takes every other four of 32 dimensions.
  __device__ static unsigned in_queries(unsigned line, unsigned dimension) {
    const unsigned instruction = dimension / 32 * 2 + dimension / 4 % 2;
    const unsigned lane = line % 8 * 4 + dimension / 8 % 4;
    return (instruction * 32 + lane) * 4 + dimension / 2 % 2 * 2 + line / 8;
  }
  __device__ uint4 load_query(unsigned instruction) const {
    return reinterpret_cast<const uint4*>(shared_.lines_of(warp_))[instruction * 32 + lane_];
  }

  __device__ void clear(const Chunk& chunk) {
    Lines::find_positions(chunk);
    start_quarter();
    split_.is_empty = all_.is_empty = true;
  }
  __device__ void start_quarter() {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      max_[half] = -INFINITY;
      totals_[half][0] = totals_[half][1] = 0;
    }
    Lines::clear(sums_);
  }
  /// Attends over kStep positions from `at` on.
  __device__ void attend(const Stage& stage, std::uint32_t at, const Chunk& chunk) {
    float scores[kStep / 8][4];
    score(stage, scores);
    const bool sees_all = at + kStep - 1 <= chunk.position &&
                          at >= Lines::first_seen(chunk.position + chunk.rows - 1);
    if (!sees_all) Lines::mask(scores, at);
#pragma unroll
    for (unsigned i = 0; i < kStep / 16; ++i) {
      update_softmax(scores[2 * i], scores[2 * i + 1]);
      std::uint32_t weights[4];
      std::uint32_t rests[4];
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        const float first = scores[2 * i + j / 2][j % 2 * 2];
        const float second = scores[2 * i + j / 2][j % 2 * 2 + 1];
        weights[j] = pair_of<kIsBfloat>(first, second);
        rests[j] = rest_of<kIsBfloat>(first, second, weights[j]);
      }
#pragma unroll
      for (unsigned part = 0; part < kSize / 16; ++part) {
        std::uint32_t values[4];
        ldmatrix_transposed(
            stage.values + in_values(i * 16 + lane_ % 16, part * 16 + lane_ / 16 * 8), values);
        Lines::mma_two(sums_[2 * part], sums_[2 * part + 1], weights, values);
        Lines::mma_two(sums_[2 * part], sums_[2 * part + 1], rests, values);
      }
    }
  }
  /// Scores, as OnlineSoftmax::score computes them.
  __device__ void score(const Stage& stage, float (&scores)[kStep / 8][4]) const {
    float small[kStep / 8][4];
    Lines::clear(scores);
    Lines::clear(small);
#pragma unroll
    for (unsigned part = 0; part < kSize / 32; ++part)
#pragma unroll
      for (unsigned i = 0; i < kStep / 8; ++i) {
        const uint4 keys = *reinterpret_cast<const uint4*>(
            stage.keys + in_keys(i * 8 + lane_ / 4, part * 32 + lane_ % 4 * 8));
        const auto times = [&](float(&sum)[4], const uint4& first, const uint4& second) {
          mma<kIsBfloat>(sum, first.x, first.y, first.z, first.w, keys.x, keys.y);
          mma<kIsBfloat>(sum, second.x, second.y, second.z, second.w, keys.z, keys.w);
        };
        times(scores[i], queries_[2 * part], queries_[2 * part + 1]);
        times(small[i], rests_[2 * part], rests_[2 * part + 1]);
      }
#pragma unroll
    for (unsigned i = 0; i < kStep / 8; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) scores[i][j] += small[i][j];
  }
  /// Online softmax of 16 positions: turns scores into weights and rescales totals and sums to the
  /// new base, as OnlineSoftmax::add does.
  __device__ void update_softmax(float (&low)[4], float (&high)[4]) {
    float factors[2];
    bool rescales = false;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float most =
          fmaxf(fmaxf(low[half * 2], low[half * 2 + 1]), fmaxf(high[half * 2], high[half * 2 + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float before = max_[half];
      max_[half] = next_base(before, most);
      const float base = max_[half] == -INFINITY ? 0 : max_[half];  // has seen nothing yet
      factors[half] = fast_exp2(before - base);
      rescales = rescales || (before != max_[half] && before != -INFINITY);
#pragma unroll
      for (unsigned j = 0; j < 2; ++j) {
        low[half * 2 + j] = fast_exp2(low[half * 2 + j] - base);
        high[half * 2 + j] = fast_exp2(high[half * 2 + j] - base);
        totals_[half][j] = __fmaf_rn(totals_[half][j], factors[half], low[half * 2 + j]);
        totals_[half][j] += high[half * 2 + j];
      }
    }
    if (!__any_sync(~0u, rescales)) return;
#pragma unroll
    for (unsigned i = 0; i < kSize / 8; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) sums_[i][j] *= factors[j / 2];
  }

  // Folding.

  /// A line's total is that of four lanes, added up as OnlineSoftmax::finish does.
  __device__ void add_up_totals() {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      total_[half] = totals_[half][0] + totals_[half][1];
      total_[half] += __shfl_xor_sync(~0u, total_[half], 1);
      total_[half] += __shfl_xor_sync(~0u, total_[half], 2);
    }
  }
  /// Folds a quarter behind its split's others, and a split behind the others. The last result
  /// stays in registers.
  __device__ void end_quarter(bool ends_split, bool is_end) {
    add_up_totals();
    fold_behind(split_, shared_.split[warp_]);
    if (ends_split || is_end) {
      split_.is_empty = true;
      fold_behind(all_, shared_.all[warp_]);
      if (is_end) return;
      put_aside(all_, shared_.all[warp_]);
    } else {
      put_aside(split_, shared_.split[warp_]);
    }
    start_quarter();
  }
  /// What was put aside, but for its sums.
  struct Aside {
    float max[2];
    float total[2];
    bool is_empty;
  };
  __device__ void put_aside(Aside& aside, Sums& sums) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      aside.max[half] = max_[half];
      aside.total[half] = total_[half];
    }
    aside.is_empty = false;
#pragma unroll
    for (unsigned i = 0; i < kSize / 8; ++i)
      sums.of[i][lane_] = {sums_[i][0], sums_[i][1], sums_[i][2], sums_[i][3]};
  }
  __device__ void fold_behind(const Aside& aside, const Sums& sums) {
    if (aside.is_empty) return;
    Fold::Weights weights[2];
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      Fold fold{aside.max[half]};
      weights[half] = fold.add(max_[half]);
      max_[half] = fold.max;
      total_[half] = weights[half].folded(aside.total[half], total_[half]);
    }
#pragma unroll
    for (unsigned i = 0; i < kSize / 8; ++i) {
      const float4 before = sums.of[i][lane_];
      sums_[i][0] = weights[0].folded(before.x, sums_[i][0]);
      sums_[i][1] = weights[0].folded(before.y, sums_[i][1]);
      sums_[i][2] = weights[1].folded(before.z, sums_[i][2]);
      sums_[i][3] = weights[1].folded(before.w, sums_[i][3]);
    }
  }

  /// Each warp stores its own lines, through shared memory so that rows are written whole.
  __device__ void store_results(const Chunk& chunk) {
    std::uint16_t* const lines = shared_.lines_of(warp_);
    __syncwarp();
    for (unsigned plane = 0; plane < (a_.y_rest ? 2u : 1u); ++plane) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const float factor = 1 / total_[half];
        const unsigned line = lane_ / 4 + half * 8;
#pragma unroll
        for (unsigned i = 0; i < kSize / 8; ++i) {
          const float first = sums_[i][half * 2] * factor;
          const float second = sums_[i][half * 2 + 1] * factor;
          const std::uint32_t pair = pair_of<true>(first, second);
          *reinterpret_cast<std::uint32_t*>(lines + in_values(line, i * 8) + lane_ % 4 * 2) =
              plane == 0 ? pair : rest_of<true>(first, second, pair);
        }
      }
      __syncwarp();
      Lines::write_lines(
          chunk, plane == 0 ? a_.y : a_.y_rest,
          [&](unsigned line, unsigned dimension) { return lines + in_values(line, dimension); });
      __syncwarp();
    }
  }

  Shared& shared_;
  FixedSplits splits_;
  uint4 queries_[kSize / 16];
  uint4 rests_[kSize / 16];
  // Of a quarter, and then of what it was folded behind.
  float max_[2];        // what weights are relative to, in units of log2
  float totals_[2][2];  // of this lane's positions, the even ones and the odd ones
  float total_[2];
  float sums_[kSize / 8][4];
  Aside split_;
  Aside all_;
};

}  // namespace attacca::kernels::attending
