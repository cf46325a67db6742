// attention_fixed_chunks.cuh: attention for neighbouring rows of one slot, as attention_chunks.cuh,
// with the bits that single rows have at fixed splits. A line is computed as attention_warp.cuh and
// attention_rows.cuh compute it: 16 positions at a time, the same dimensions in an instruction, a
// quarter of a split from fresh state; quarters are folded into their split, and splits into the
// result. Masked positions add exact zeros.
//
// A quarter and its split are summed up in registers; the splits before them wait in shared memory,
// whose bandwidth is nearly used up by keys, values and queries. Large heads would need too many
// registers. There two warps share 16 lines: both compute the scores, and each sums up half of the
// dimensions.
#pragma once

#include "kernels/attention/attention_chunks.cuh"
#include "kernels/attention/attention_fold.cuh"

namespace attacca::kernels::attending {

template <class Args, KvType kType, unsigned kSize>
class FixedChunkTiles : ChunkLines<Args, kType, kSize> {
  using Lines = ChunkLines<Args, kType, kSize>;
  using Lines::a_, Lines::group_, Lines::lane_, Lines::kIsBfloat;

 public:
  static constexpr unsigned kDimensions = kSize < 128 ? kSize : 128;  // of a warp's sums
  static constexpr unsigned kSharing = kSize / kDimensions;           // warps that share lines
  static constexpr unsigned kBlockLines = kLines / kSharing;
  static constexpr unsigned kLineGroups = kWarps / kSharing;
  static constexpr unsigned kStep = 32 / kSharing;  // positions
  static constexpr unsigned kGroups = kStep / 16;   // of positions that meet in an instruction
  /// Of the kSize / 16 instructions that score positions, so many have their queries in registers.
  /// More of them spill.
  static constexpr unsigned kKept = kSize > 128 ? 0 : kSize > 64 ? 3 : 4;
  static_assert(FixedSplits::kLeast / 4 % kStep == 0);

  struct Stage {
    alignas(16) std::uint16_t keys[kStep * kSize];
    alignas(16) std::uint16_t values[kStep * kSize];
  };
  /// 16 lines of queries, as the tensor cores take them: see `in_queries`.
  struct Queries {
    uint4 of[kSize / 16][32];
  };
  /// Sums that each lane has put aside.
  struct Sums {
    float4 of[kDimensions / 8][32];
    float4 stats[32];  // max and total of two lines
  };
  struct Shared {
    Stage stages[2];
    Sums all[kWarps];  // of the splits before this one
    Queries queries[kLineGroups];
    Queries rests[kLineGroups];  // rounding errors of the queries
  };

  __device__ FixedChunkTiles(const Args& args, Shared& shared, const FixedCut& cut)
      : Lines(args, cut.parts.group),
        shared_(shared),
        splits_(cut.splits),
        lines_(Lines::warp_ % kLineGroups),
        dimensions_(Lines::warp_ / kLineGroups * kDimensions) {}

  /// Computes kBlockLines of the chunk's lines. REQUIRES: no thread still uses the shared memory.
  /// Returns without a barrier.
  __device__ void run(const Chunk& chunk) {
    if (chunk.first_line >= chunk.rows * group_) return;
    first_line_ = chunk.first_line + lines_ * 16;
    const std::uint32_t last_row =
        min((chunk.first_line + kBlockLines - 1) / group_, chunk.rows - 1);
    const std::uint32_t last = chunk.position + last_row;
    const std::uint32_t begin = Lines::first_seen(chunk.position) / kStep * kStep;
    const std::uint32_t steps = (last - begin) / kStep + 1;
    Lines::load_pages(chunk, begin, last);
    load(chunk, begin, begin, last, 0);
    cp_async_commit();
    store_queries(chunk);
    if constexpr (kKept != 0) {
      __syncwarp();
#pragma unroll
      for (unsigned i = 0; i < kKept; ++i) queries_[i] = shared_.queries[lines_].of[i][lane_];
    }
    Lines::find_positions(chunk, first_line_);
    clear(quarter_);
    clear(split_);
    bool is_first_split = true;
    std::uint32_t split = splits_.at(begin);
    std::uint32_t split_begin = splits_.begin(split);
    std::uint32_t quarter = splits_.size(split) / 4;  // a power of two
    for (std::uint32_t step = 0; step < steps; ++step) {
      const std::uint32_t at = begin + step * kStep;
      cp_async_wait<0>();
      __syncthreads();
      if (step + 1 < steps) load(chunk, begin, at + kStep, last, (step + 1) % 2);
      cp_async_commit();
      attend(shared_.stages[step % 2], at, chunk);
      const std::uint32_t done = at + kStep - split_begin;
      const bool is_end = step + 1 == steps;
      if (!is_end && (done & (quarter - 1)) != 0) continue;
      fold_quarter();
      if (is_end || done != 4 * quarter) continue;
      if (!is_first_split) fold_behind_others();
      put_aside();
      is_first_split = false;
      split_begin += done;
      quarter = splits_.size(++split) / 4;
    }
    if (!is_first_split) fold_behind_others();
    store_results(chunk);
  }

 private:
  /// Sums of some positions. `max` is what weights are relative to, in units of log2.
  struct Part {
    float max[2];
    float total[2];
    float sums[kDimensions / 8][4];
  };
  __device__ static void clear(Part& part) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      part.max[half] = -INFINITY;
      part.total[half] = 0;
    }
    Lines::clear(part.sums);
  }

  __device__ void load(const Chunk& chunk, std::uint32_t begin, std::uint32_t at,
                       std::uint32_t last, unsigned stage) {
    Stage& to = shared_.stages[stage];
    Lines::template load<kStep>(
        chunk, begin, at, last,
        [&](unsigned row, unsigned dimension) { return to.keys + in_keys(row, dimension); },
        [&](unsigned row, unsigned dimension) { return to.values + in_values(row, dimension); });
  }
  /// Where eight dimensions lie in rows of keys. A quarter of a warp reads 32 dimensions of two
  /// rows, so that these are in different banks.
  __device__ static unsigned in_keys(unsigned row, unsigned dimension) {
    return row * kSize + (dimension ^ (row % 2 * 32));
  }
  /// Where they lie in rows of values, of which eight are read at once.
  __device__ static unsigned in_values(unsigned row, unsigned dimension) {
    return row * kSize + (dimension ^ (row % 8 * 8));
  }

  // Queries. Line i is row i / group and head i % group.

  /// The first of the warps that share lines stores their queries and the rounding errors.
  __device__ void store_queries(const Chunk& chunk) {
    if (dimensions_ != 0) return;
    const float factor = a_.scale * 1.4426950408889634f;
    auto* const words = reinterpret_cast<std::uint32_t*>(shared_.queries[lines_].of);
    auto* const rests = reinterpret_cast<std::uint32_t*>(shared_.rests[lines_].of);
    for (unsigned line = 0; line < 16; ++line) {
      const std::uint32_t row = (first_line_ + line) / group_;
      const std::uint32_t head = chunk.kv_head * group_ + (first_line_ + line) % group_;
      const float* q = a_.q + std::uint64_t{chunk.row + row} * a_.q_stride +
                       std::uint64_t{head} * a_.kv.head_size;
      for (unsigned at = 2 * lane_; at < kSize; at += 64) {
        const bool is_there = row < chunk.rows && at < a_.kv.head_size;
        const float2 two = is_there ? *reinterpret_cast<const float2*>(q + at) : float2{};
        const float first = product<true>(two.x, factor);
        const float second = product<true>(two.y, factor);
        const std::uint32_t pair = pair_of<kIsBfloat>(first, second);
        words[in_queries(line, at)] = pair;
        rests[in_queries(line, at)] = rest_of<kIsBfloat>(first, second, pair);
      }
    }
  }
  /// Where a pair of a line's dimensions lies: the four words that a lane needs for an instruction
  /// are neighbours. An instruction takes every other four of 32 dimensions.
  __device__ static unsigned in_queries(unsigned line, unsigned dimension) {
    const unsigned instruction = dimension / 32 * 2 + dimension / 4 % 2;
    const unsigned lane = line % 8 * 4 + dimension / 8 % 4;
    return (instruction * 32 + lane) * 4 + dimension / 2 % 2 * 2 + line / 8;
  }
  __device__ uint4 query(unsigned instruction) const {
    if constexpr (kKept != 0)
      if (instruction < kKept) return queries_[instruction];
    return shared_.queries[lines_].of[instruction][lane_];
  }

  // Attending.

  /// Attends over kStep positions from `at` on.
  __device__ void attend(const Stage& stage, std::uint32_t at, const Chunk& chunk) {
    float scores[kStep / 8][4];
    score(stage, scores);
    const bool sees_all = at + kStep - 1 <= chunk.position &&
                          at >= Lines::first_seen(chunk.position + chunk.rows - 1);
    if (!sees_all) Lines::mask(scores, at);
    float factors[kGroups][2];
    const bool rescales = update_softmax(scores, factors);
#pragma unroll
    for (unsigned i = 0; i < kGroups; ++i) {
      std::uint32_t weights[4];
      std::uint32_t rests[4];
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        const float first = scores[2 * i + j / 2][j % 2 * 2];
        const float second = scores[2 * i + j / 2][j % 2 * 2 + 1];
        weights[j] = pair_of<kIsBfloat>(first, second);
        rests[j] = rest_of<kIsBfloat>(first, second, weights[j]);
      }
      if (rescales) rescale(factors[i]);
#pragma unroll
      for (unsigned part = 0; part < kDimensions / 16; ++part) {
        std::uint32_t values[4];
        ldmatrix_transposed(
            stage.values + in_values(i * 16 + lane_ % 16, dimensions_ + part * 16 + lane_ / 16 * 8),
            values);
        Lines::mma_two(quarter_.sums[2 * part], quarter_.sums[2 * part + 1], weights, values);
        Lines::mma_two(quarter_.sums[2 * part], quarter_.sums[2 * part + 1], rests, values);
      }
    }
  }
  /// Scores, as OnlineSoftmax::score computes them.
  __device__ void score(const Stage& stage, float (&scores)[kStep / 8][4]) const {
    Lines::clear(scores);
#pragma unroll
    for (unsigned part = 0; part < kSize / 32; ++part) {
      const uint4 queries[2] = {query(2 * part), query(2 * part + 1)};
      const uint4 rests[2] = {shared_.rests[lines_].of[2 * part][lane_],
                              shared_.rests[lines_].of[2 * part + 1][lane_]};
#pragma unroll
      for (unsigned i = 0; i < kStep / 8; ++i) {
        const uint4 keys = *reinterpret_cast<const uint4*>(
            stage.keys + in_keys(i * 8 + lane_ / 4, part * 32 + lane_ % 4 * 8));
        const auto times = [&](const uint4(&with)[2]) {
          mma<kIsBfloat>(scores[i], with[0].x, with[0].y, with[0].z, with[0].w, keys.x, keys.y);
          mma<kIsBfloat>(scores[i], with[1].x, with[1].y, with[1].z, with[1].w, keys.z, keys.w);
        };
        times(queries);
        times(rests);
      }
    }
  }
  /// Online softmax, 16 positions after another: turns scores into weights and finds the factors by
  /// which sums are rescaled before each 16, as OnlineSoftmax::add does. Returns whether any lane's
  /// factors matter.
  __device__ bool update_softmax(float (&scores)[kStep / 8][4], float (&factors)[kGroups][2]) {
    bool rescales = false;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float most[kGroups];
#pragma unroll
      for (unsigned i = 0; i < kGroups; ++i) {
        const float(&low)[4] = scores[2 * i];
        const float(&high)[4] = scores[2 * i + 1];
        most[i] = fmaxf(fmaxf(low[half * 2], low[half * 2 + 1]),
                        fmaxf(high[half * 2], high[half * 2 + 1]));
        most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], 1));
        most[i] = fmaxf(most[i], __shfl_xor_sync(~0u, most[i], 2));
      }
#pragma unroll
      for (unsigned i = 0; i < kGroups; ++i) {
        float(&low)[4] = scores[2 * i];
        float(&high)[4] = scores[2 * i + 1];
        const float before = quarter_.max[half];
        const float after = next_base(before, most[i]);
        const float base = after == -INFINITY ? 0 : after;  // has seen nothing yet
        quarter_.max[half] = after;
        factors[i][half] = fast_exp2(before - base);
        rescales = rescales || (before != after && before != -INFINITY);
#pragma unroll
        for (unsigned j = 0; j < 2; ++j) {
          low[half * 2 + j] = fast_exp2(low[half * 2 + j] - base);
          high[half * 2 + j] = fast_exp2(high[half * 2 + j] - base);
          totals_[half][j] = __fmaf_rn(totals_[half][j], factors[i][half], low[half * 2 + j]);
          totals_[half][j] += high[half * 2 + j];
        }
      }
    }
    return __any_sync(~0u, rescales);
  }
  __device__ void rescale(const float (&factors)[2]) {
#pragma unroll
    for (unsigned i = 0; i < kDimensions / 8; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) quarter_.sums[i][j] *= factors[j / 2];
  }

  // Folding.

  /// Folds the quarter behind the others of its split, and begins another.
  __device__ void fold_quarter() {
    // A line's total is that of four lanes, added up as OnlineSoftmax::finish does.
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float total = totals_[half][0] + totals_[half][1];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      quarter_.total[half] = total;
      totals_[half][0] = totals_[half][1] = 0;
    }
    Fold::Weights weights[2];
    fold_totals(split_.max, split_.total, quarter_, weights);
#pragma unroll
    for (unsigned i = 0; i < kDimensions / 8; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j)
        split_.sums[i][j] = weights[j / 2].folded(split_.sums[i][j], quarter_.sums[i][j]);
    clear(quarter_);
  }
  /// Folds a part behind others, but for the sums.
  __device__ static void fold_totals(float (&max)[2], float (&total)[2], const Part& part,
                                     Fold::Weights (&weights)[2]) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      Fold fold{max[half]};
      weights[half] = fold.add(part.max[half]);
      max[half] = fold.max;
      total[half] = weights[half].folded(total[half], part.total[half]);
    }
  }
  /// Folds the split behind those that were put aside. The result replaces it.
  __device__ void fold_behind_others() {
    const float4 stats = shared_.all[Lines::warp_].stats[lane_];
    float max[2] = {stats.x, stats.y};
    float total[2] = {stats.z, stats.w};
    Fold::Weights weights[2];
    fold_totals(max, total, split_, weights);
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      split_.max[half] = max[half];
      split_.total[half] = total[half];
    }
#pragma unroll
    for (unsigned i = 0; i < kDimensions / 8; ++i) {
      const float4 before = shared_.all[Lines::warp_].of[i][lane_];
      split_.sums[i][0] = weights[0].folded(before.x, split_.sums[i][0]);
      split_.sums[i][1] = weights[0].folded(before.y, split_.sums[i][1]);
      split_.sums[i][2] = weights[1].folded(before.z, split_.sums[i][2]);
      split_.sums[i][3] = weights[1].folded(before.w, split_.sums[i][3]);
    }
  }
  /// Puts the split aside, and begins another.
  __device__ void put_aside() {
    shared_.all[Lines::warp_].stats[lane_] = {split_.max[0], split_.max[1], split_.total[0],
                                              split_.total[1]};
#pragma unroll
    for (unsigned i = 0; i < kDimensions / 8; ++i)
      shared_.all[Lines::warp_].of[i][lane_] = {split_.sums[i][0], split_.sums[i][1],
                                                split_.sums[i][2], split_.sums[i][3]};
    clear(split_);
  }

  /// Each warp stores its own lines, through shared memory so that rows are written whole.
  __device__ void store_results(const Chunk& chunk) {
    auto* const lines = reinterpret_cast<std::uint16_t*>(shared_.all + Lines::warp_);
    const auto in_lines = [](unsigned line, unsigned dimension) {
      return line * kDimensions + (dimension ^ (line % 8 * 8));
    };
    __syncwarp();
    for (unsigned plane = 0; plane < (a_.y_rest ? 2u : 1u); ++plane) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const float factor = 1 / split_.total[half];
        const unsigned line = lane_ / 4 + half * 8;
#pragma unroll
        for (unsigned i = 0; i < kDimensions / 8; ++i) {
          const float first = product<true>(split_.sums[i][half * 2], factor);
          const float second = product<true>(split_.sums[i][half * 2 + 1], factor);
          const std::uint32_t pair = pair_of<true>(first, second);
          *reinterpret_cast<std::uint32_t*>(lines + in_lines(line, i * 8) + lane_ % 4 * 2) =
              plane == 0 ? pair : rest_of<true>(first, second, pair);
        }
      }
      __syncwarp();
      Lines::template write_lines<kDimensions>(
          chunk, first_line_, dimensions_, plane == 0 ? a_.y : a_.y_rest,
          [&](unsigned line, unsigned dimension) { return lines + in_lines(line, dimension); });
      __syncwarp();
    }
  }

  Shared& shared_;
  FixedSplits splits_;
  unsigned lines_;       // which 16 of the block's lines are this warp's
  unsigned dimensions_;  // the first of this warp's sums
  std::uint32_t first_line_ = 0;
  uint4 queries_[kKept == 0 ? 1 : kKept];
  Part quarter_;             // `total` only when it is folded
  float totals_[2][2] = {};  // of this lane's positions in the quarter, even ones and odd ones
  Part split_;
};

}  // namespace attacca::kernels::attending
