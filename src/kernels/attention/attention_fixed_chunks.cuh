// attention_fixed_chunks.cuh: attention for neighbouring rows of one slot, as attention_chunks.cuh,
// with the bits that single rows have at fixed splits: in the order of attention_fold.cuh, with the
// same 16 positions and the same dimensions in an instruction. Masked positions add exact zeros.
//
// A chain is multiplied for 16 dimensions after another, which are folded at once. So registers
// hold the sums of a split; those of the splits before it are seldom used, and the compiler puts
// some of them into local memory. Large heads would need too many. There two warps share 16 lines:
// both compute the scores, and each sums up half of the dimensions.
#pragma once

#include "kernels/attention/attention_chunk_lines.cuh"
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
  static constexpr unsigned kStep = 64 / kSharing;  // positions
  static_assert(kStep % kChain == 0 && FixedSplits::kLeast % kStep == 0 && kChain == 32);

  struct Stage {
    alignas(16) std::uint16_t keys[kStep * kSize];
    alignas(16) std::uint16_t values[kStep * kSize];
  };
  /// 16 lines of queries, as the tensor cores take them: see `in_queries`.
  struct Queries {
    uint4 of[kSize / 16][32];
  };
  struct Shared {
    Stage stages[2];  // and in the end results on their way to memory
    Queries queries[kLineGroups];
    Queries rests[kLineGroups];  // rounding errors of the queries
  };

  __device__ FixedChunkTiles(const Args& args, Shared& shared, const FixedCut& cut)
      : Lines(args, cut.parts.group),
        shared_(shared),
        splits_(cut.splits()),
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
    Lines::find_positions(chunk, first_line_);
    clear(split_);
    clear(all_);
    is_first_chain_ = is_first_split_ = true;
    std::uint32_t split_end = splits_.begin(splits_.at(begin) + 1);
    for (std::uint32_t step = 0; step < steps; ++step) {
      const std::uint32_t first = begin + step * kStep;
      cp_async_wait<0>();
      __syncthreads();
      if (step + 1 < steps) load(chunk, begin, first + kStep, last, (step + 1) % 2);
      cp_async_commit();
      attend(shared_.stages[step % 2], first, last, chunk);
      if (first + kStep != split_end) continue;
      fold_split();
      split_end += 1u << splits_.bits_at(split_end);
    }
    fold_split();
    __syncthreads();
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
    part.total[0] = part.total[1] = 0;
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
  // Attending.

  /// What a lane knows of a chain before it is multiplied.
  struct Chain {
    float max[2];
    float factors[2];             // by which sums of the first 16 positions are rescaled
    std::uint32_t weights[2][4];  // of the first 16 positions, and of the others
  };

  using Scores = float[kChain / 8][4];

  /// Attends over kStep positions from `at` on, and at most up to `last`.
  __device__ void attend(const Stage& stage, std::uint32_t at, std::uint32_t last,
                         const Chunk& chunk) {
    Scores scores[kStep / kChain];
    score(stage, scores);
    const bool sees_all = at + kStep - 1 <= chunk.position &&
                          at >= Lines::first_seen(chunk.position + chunk.rows - 1);
#pragma unroll
    for (unsigned row = 0; row < kStep; row += kChain) {
      if (at + row > last) break;
      if (!sees_all) Lines::mask(scores[row / kChain], at + row);
      attend_chain(stage, row, scores[row / kChain]);
    }
  }
  /// Scores, as OnlineSoftmax::score computes them.
  __device__ void score(const Stage& stage, Scores (&all)[kStep / kChain]) const {
#pragma unroll
    for (unsigned part = 0; part < kSize / 32; ++part) {
      const uint4 queries[2] = {shared_.queries[lines_].of[2 * part][lane_],
                                shared_.queries[lines_].of[2 * part + 1][lane_]};
      const uint4 rests[2] = {shared_.rests[lines_].of[2 * part][lane_],
                              shared_.rests[lines_].of[2 * part + 1][lane_]};
#pragma unroll
      for (unsigned i = 0; i < kStep / 8; ++i) {
        const uint4 keys = *reinterpret_cast<const uint4*>(
            stage.keys + in_keys(i * 8 + lane_ / 4, part * 32 + lane_ % 4 * 8));
        float(&scores)[4] = all[i * 8 / kChain][i % (kChain / 8)];
        const auto times = [&](const uint4& with, std::uint32_t low, std::uint32_t high) {
          mma<kIsBfloat>(scores, with.x, with.y, with.z, with.w, low, high);
        };
        const uint4& q = queries[0];
        if (part == 0)
          mma_first<kIsBfloat>(scores, q.x, q.y, q.z, q.w, keys.x, keys.y);
        else
          times(q, keys.x, keys.y);
        times(queries[1], keys.z, keys.w);
        times(rests[0], keys.x, keys.y);
        times(rests[1], keys.z, keys.w);
      }
    }
  }
  /// Attends over the chain of positions that begins with number `row` of the stage.
  __device__ void attend_chain(const Stage& stage, unsigned row, const Scores& scores) {
    Chain chain;
    const bool has_base_0 = all_have_base_0(scores);
    if (has_base_0) {
      chain.max[0] = chain.max[1] = 0;
      chain.factors[0] = chain.factors[1] = 1;
      weigh(
          scores, [](unsigned, unsigned) { return 0.0f; }, chain);
    } else {
      find_bases(scores, chain);
    }
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
      if (is_first_chain_) split_.max[half] = chain.max[half];
    is_first_chain_ = false;
    if (has_base_0 && !differs(split_.max, chain.max))
      multiply<true>(stage, row, chain);
    else
      multiply<false>(stage, row, chain);
  }
  /// Whether the warp's lines all have the base 0, by the rule of next_base. It seldom has to be
  /// found by more than this.
  __device__ static bool all_have_base_0(const Scores& scores) {
    bool is_within = true;
    bool has_base = true;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const auto most = [&](unsigned i) {
        return fmaxf(fmaxf(scores[i][half * 2], scores[i][half * 2 + 1]),
                     fmaxf(scores[i + 1][half * 2], scores[i + 1][half * 2 + 1]));
      };
      const float first = most(0);
      is_within = is_within && fmaxf(first, most(2)) <= kReach<kIsBfloat>;
      // One of the four lanes of each line.
      std::uint32_t high = __ballot_sync(~0u, first >= -kReach<kIsBfloat>);
      high |= high >> 1;
      high |= high >> 2;
      has_base = has_base && (high & 0x11111111u) == 0x11111111u;
    }
    return __ballot_sync(~0u, is_within) == ~0u && has_base;
  }
  /// Online softmax, 16 positions after another, as OnlineSoftmax::add_to_chain does.
  __device__ static void find_bases(const Scores& scores, Chain& chain) {
    float bases[2][2];
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      chain.max[half] = -INFINITY;
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        const float(&low)[4] = scores[2 * i];
        const float(&high)[4] = scores[2 * i + 1];
        float most = fmaxf(fmaxf(low[half * 2], low[half * 2 + 1]),
                           fmaxf(high[half * 2], high[half * 2 + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        const float before = chain.max[half];
        chain.max[half] = next_base<kIsBfloat>(before, most);
        bases[half][i] = finite_base(chain.max[half]);
        chain.factors[half] = fast_exp2(before - bases[half][i]);
      }
    }
    weigh(
        scores, [&](unsigned half, unsigned i) { return bases[half][i]; }, chain);
  }
  /// `base_of` tells the base of 16 positions.
  template <class BaseOf>
  __device__ static void weigh(const Scores& scores, const BaseOf& base_of, Chain& chain) {
#pragma unroll
    for (unsigned i = 0; i < 2; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        const float(&two)[4] = scores[2 * i + j / 2];
        const float base = base_of(j % 2, i);
        chain.weights[i][j] = pair_of<kIsBfloat>(fast_exp2(two[j % 2 * 2] - base),
                                                 fast_exp2(two[j % 2 * 2 + 1] - base));
      }
  }
  /// Multiplies weights by values and folds the sums behind the other chains of the split. `kAdds`:
  /// they are merely added, since all have the same base.
  template <bool kAdds>
  __device__ void multiply(const Stage& stage, unsigned row, const Chain& chain) {
    Fold::Weights fold[2];
    if constexpr (!kAdds) fold_bases(split_.max, chain.max, fold);
    const auto rescale = [&](float(&sums)[4]) {
      if constexpr (!kAdds)
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) sums[j] *= chain.factors[j / 2];
    };
    const auto folded = [&](float before, float sum, [[maybe_unused]] unsigned half) {
      if constexpr (kAdds)
        return __fadd_rn(before, sum);
      else
        return fold[half].folded(before, sum);
    };
    constexpr std::uint32_t kOne = kOnes<kIsBfloat>;
    const auto& w = chain.weights;
    float totals[4];
    mma_first<kIsBfloat>(totals, w[0][0], w[0][1], w[0][2], w[0][3], kOne, kOne);
    rescale(totals);
    mma<kIsBfloat>(totals, w[1][0], w[1][1], w[1][2], w[1][3], kOne, kOne);
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
      split_.total[half] = folded(split_.total[half], totals[2 * half], half);
#pragma unroll
    for (unsigned part = 0; part < kDimensions / 16; ++part) {
      std::uint32_t values[2][4];
#pragma unroll
      for (unsigned i = 0; i < 2; ++i)
        ldmatrix_transposed(stage.values + in_values(row + i * 16 + lane_ % 16,
                                                     dimensions_ + part * 16 + lane_ / 16 * 8),
                            values[i]);
      float sums[2][4];
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        mma_first<kIsBfloat>(sums[i], w[0][0], w[0][1], w[0][2], w[0][3], values[0][2 * i],
                             values[0][2 * i + 1]);
        rescale(sums[i]);
      }
      Lines::mma_two(sums[0], sums[1], w[1], values[1]);
#pragma unroll
      for (unsigned i = 0; i < 2; ++i)
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) {
          float& split = split_.sums[2 * part + i][j];
          split = folded(split, sums[i][j], j / 2);
        }
    }
  }

  // Folding. Nothing has been folded yet into a part whose sums are zeros; it takes the next base.

  __device__ static bool differs(const float (&a)[2], const float (&b)[2]) {
    return __any_sync(~0u, !(a[0] == b[0] && a[1] == b[1]));
  }
  /// Finds the weights of a fold, and its base.
  __device__ static void fold_bases(float (&max)[2], const float (&next)[2],
                                    Fold::Weights (&weights)[2]) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      Fold fold{max[half]};
      weights[half] = fold.add(next[half]);
      max[half] = fold.max;
    }
  }
  /// Folds the split behind those before it, and begins another. It may be empty.
  __device__ void fold_split() {
    if (is_first_chain_) return;
    is_first_chain_ = true;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
      if (is_first_split_) all_.max[half] = split_.max[half];
    is_first_split_ = false;
    Fold::Weights weights[2] = {{1, 1}, {1, 1}};
    if (differs(all_.max, split_.max)) fold_bases(all_.max, split_.max, weights);
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
      all_.total[half] = weights[half].folded(all_.total[half], split_.total[half]);
#pragma unroll
    for (unsigned i = 0; i < kDimensions / 8; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j)
        all_.sums[i][j] = weights[j / 2].folded(all_.sums[i][j], split_.sums[i][j]);
    clear(split_);
  }

  /// Each warp stores its own lines, through shared memory so that rows are written whole.
  __device__ void store_results(const Chunk& chunk) {
    auto* const lines =
        reinterpret_cast<std::uint16_t*>(shared_.stages) + Lines::warp_ * 16 * kDimensions;
    const auto in_lines = [](unsigned line, unsigned dimension) {
      return line * kDimensions + (dimension ^ (line % 8 * 8));
    };
    for (unsigned plane = 0; plane < (a_.y_rest ? 2u : 1u); ++plane) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const float factor = 1 / all_.total[half];
        const unsigned line = lane_ / 4 + half * 8;
#pragma unroll
        for (unsigned i = 0; i < kDimensions / 8; ++i) {
          const float first = product<true>(all_.sums[i][half * 2], factor);
          const float second = product<true>(all_.sums[i][half * 2 + 1], factor);
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
  bool is_first_chain_;  // the split is empty
  bool is_first_split_;
  Part split_;
  Part all_;  // of the splits before this one
};

}  // namespace attacca::kernels::attending
