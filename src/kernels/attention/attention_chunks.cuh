// attention_chunks.cuh: attention for neighbouring rows of one slot (prefill), one Chunk at a time.
// A chunk has up to 64 lines; a line is one query, of one row and one head of a kv head's group.
// Each of four warps has 16 lines. Keys and values go through stages in shared memory: while one is
// multiplied, the next ones are loaded. Rows that are alone in their slot are left to
// attention_rows.cuh.
//
// A line is computed as attention_warp.cuh and attention_rows.cuh compute it where splits are
// fixed: 16 positions at a time, the same dimensions in an instruction, a quarter of a split from
// fresh state; quarters are folded into their split, and splits into the result. So it has the same
// bits, in any chunk. Masked positions add exact zeros. Heads above 128 leave no registers to fold
// in, and go through all positions in one piece.
//
// Queries and softmax weights are rounded to 16 bits, as for single rows.
#pragma once

#include "kernels/attention/attention_elements.cuh"
#include "kernels/attention/attention_rows.cuh"

namespace attacca::kernels::attending {

inline constexpr std::uint32_t kLines = 64;

/// Neighbouring rows of one slot, for one kv head.
struct Chunk {
  std::uint32_t row;   // the first
  std::uint32_t rows;  // at most kLines / group
  std::uint32_t slot;
  std::uint32_t position;  // of the first row; the others follow
  std::uint32_t kv_head;
};

/// `Args` has q, q_stride, kv, heads, scale, window and y.
template <class Args, KvType kType, unsigned kSize>
class ChunkTiles {
 public:
  static constexpr bool kIsBfloat = is_bfloat(kType);
  static constexpr unsigned kBytes = kv_element_bytes(kType);
  static constexpr unsigned kStep = 32;  // positions
  static constexpr bool kFolds = kSize <= 128;
  static constexpr unsigned kEights = kSize / 8;
  /// 16-bit types need no conversion and are copied with cp.async.
  static constexpr bool kCopies = kBytes == 2;
  static_assert(kType != KvType::f32);
  static_assert(FixedSplits::kLeast / 4 % kStep == 0);

  struct Stage {
    alignas(16) std::uint16_t keys[kStep * kSize];
    alignas(16) std::uint16_t values[kStep * kSize];
  };
  /// Sums that each lane has put aside.
  struct Sums {
    float4 of[kFolds ? kSize / 8 : 1][32];
  };
  struct Shared {
    Stage stages[2];
    Sums split[kFolds ? kWarps : 1];  // of its quarters before this one
    union {
      alignas(16) std::uint16_t lines[kLines * kSize];  // queries; then results, on their way out
      Sums all[kFolds ? kWarps : 1];                    // of the splits before this one
    };

    /// What only one warp uses.
    __device__ std::uint16_t* lines_of(unsigned warp) {
      return kFolds ? reinterpret_cast<std::uint16_t*>(all + warp) : lines + warp * 16 * kSize;
    }
  };

  __device__ ChunkTiles(const Args& args, Shared& shared, const Cut& cut)
      : a_(args),
        shared_(shared),
        splits_(cut.fixed),
        group_(cut.parts.group),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        page_bits_(4 + args.kv.page_size / 32) {}

  /// REQUIRES: no thread still uses the shared memory. Returns without a barrier.
  __device__ void run(const Chunk& chunk) {
    const std::uint32_t last = chunk.position + chunk.rows - 1;
    const std::uint32_t begin = first_seen(chunk.position) / kStep * kStep;
    const std::uint32_t steps = (last - begin) / kStep + 1;
    load_pages(chunk, begin, last);
    load(chunk, begin, begin, last, 0);
    cp_async_commit();
    store_queries(chunk);
    if constexpr (kFolds) {
#pragma unroll
      for (unsigned i = 0; i < kSize / 16; ++i) queries_[i] = load_query(i);
      __syncwarp();
    }
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
      if constexpr (kFolds) {
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
    }
    if constexpr (!kFolds) add_up_totals();
    store_results(chunk);
  }

 private:
  __device__ std::uint32_t first_seen(std::uint32_t position) const {
    return a_.window != 0 && position >= a_.window ? position - a_.window + 1 : 0;
  }

  // Loading keys and values into shared memory.

  /// `page_` holds the pages of 512 positions, 16 positions for each lane.
  __device__ void load_pages(const Chunk& chunk, std::uint32_t from, std::uint32_t last) {
    const std::uint32_t at = from + lane_ * 16;
    const bool is_seen = at <= last && at + 15 >= first_seen(chunk.position);
    page_ = is_seen ? __ldcg(a_.kv.tables + std::uint64_t{chunk.slot} * a_.kv.table_stride +
                             (at >> page_bits_))
                    : 0;
  }
  /// Loads kStep positions from `at` on; the chunk's first step is at `begin`.
  __device__ void load(const Chunk& chunk, std::uint32_t begin, std::uint32_t at,
                       std::uint32_t last, unsigned stage) {
    constexpr unsigned kEach = kStep * kEights / kThreads;
    const std::uint32_t walked = at - begin;
    if (walked % 512 == 0 && walked != 0) load_pages(chunk, at, last);
    const std::uint32_t first = first_seen(chunk.position);
    Stage& to = shared_.stages[stage];
#pragma unroll 2  // more would take registers for addresses
    for (unsigned i = 0; i < kEach; ++i) {
      const unsigned index = i * kThreads + threadIdx.x;
      const unsigned row = index / kEights;
      const unsigned dimension = index % kEights * 8;
      const auto page =
          static_cast<std::uint64_t>(__shfl_sync(~0u, page_, (walked % 512 + row) / 16));
      const std::uint32_t position = at + row;
      const bool is_there = position >= first && position <= last && dimension < a_.kv.head_size;
      const std::uint32_t inside = position & (a_.kv.page_size - 1);
      const std::uint64_t offset =
          is_there ? ((((page * a_.kv.kv_heads + chunk.kv_head) << page_bits_) + inside) *
                          a_.kv.head_size +
                      dimension) *
                         kBytes
                   : 0;
      const unsigned char* key = a_.kv.template keys_as<unsigned char>() + offset;
      const unsigned char* value = a_.kv.template values_as<unsigned char>() + offset;
      std::uint16_t* const to_key = to.keys + in_keys(row, dimension);
      std::uint16_t* const to_value = to.values + in_values(row, dimension);
      if constexpr (kCopies) {
        cp_async(to_key, key, is_there);
        cp_async(to_value, value, is_there);
      } else {
        store_eight(to_key, key, is_there);
        store_eight(to_value, value, is_there);
      }
    }
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

  /// Each warp stores its own.
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
        words[in_queries(line, at)] = pair_of<kIsBfloat>(two.x * factor, two.y * factor);
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

  // A lane holds lines lane / 4 and lane / 4 + 8 of its warp.

  __device__ void clear(const Chunk& chunk) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t row = (warp_ * 16 + lane_ / 4 + half * 8) / group_;
      position_[half] = chunk.position + min(row, chunk.rows - 1);
    }
    start_quarter();
    split_.is_empty = all_.is_empty = true;
  }
  __device__ void start_quarter() {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      max_[half] = -INFINITY;
      totals_[half][0] = totals_[half][1] = 0;
    }
    clear(sums_);
  }
  template <unsigned kCount>
  __device__ static void clear(float (&sums)[kCount][4]) {
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) sums[i][j] = 0;
  }

  /// Attends over kStep positions from `at` on.
  __device__ void attend(const Stage& stage, std::uint32_t at, const Chunk& chunk) {
    float scores[kStep / 8][4];
    score(stage, scores);
    const bool sees_all =
        at + kStep - 1 <= chunk.position && at >= first_seen(chunk.position + chunk.rows - 1);
    if (!sees_all) mask(scores, at);
#pragma unroll
    for (unsigned i = 0; i < kStep / 16; ++i) {
      update_softmax(scores[2 * i], scores[2 * i + 1]);
      std::uint32_t weights[4];
#pragma unroll
      for (unsigned j = 0; j < 4; ++j)
        weights[j] = pair_of<kIsBfloat>(scores[2 * i + j / 2][j % 2 * 2],
                                        scores[2 * i + j / 2][j % 2 * 2 + 1]);
#pragma unroll
      for (unsigned part = 0; part < kSize / 16; ++part) {
        std::uint32_t values[4];
        ldmatrix_transposed(
            stage.values + in_values(i * 16 + lane_ % 16, part * 16 + lane_ / 16 * 8), values);
        mma_two(sums_[2 * part], sums_[2 * part + 1], weights, values);
      }
    }
  }
  /// Scores, as OnlineSoftmax::score computes them.
  __device__ void score(const Stage& stage, float (&scores)[kStep / 8][4]) const {
    clear(scores);
#pragma unroll
    for (unsigned part = 0; part < kSize / 32; ++part) {
      const uint4 first = kFolds ? queries_[kFolds ? 2 * part : 0] : load_query(2 * part);
      const uint4 second = kFolds ? queries_[kFolds ? 2 * part + 1 : 0] : load_query(2 * part + 1);
#pragma unroll
      for (unsigned i = 0; i < kStep / 8; ++i) {
        const uint4 keys = *reinterpret_cast<const uint4*>(
            stage.keys + in_keys(i * 8 + lane_ / 4, part * 32 + lane_ % 4 * 8));
        mma<kIsBfloat>(scores[i], first.x, first.y, first.z, first.w, keys.x, keys.y);
        mma<kIsBfloat>(scores[i], second.x, second.y, second.z, second.w, keys.z, keys.w);
      }
    }
  }
  /// Multiplies 16 lines by two groups of eight dimensions.
  __device__ static void mma_two(float (&first)[4], float (&second)[4], const std::uint32_t (&a)[4],
                                 const std::uint32_t (&b)[4]) {
    mma<kIsBfloat>(first, a[0], a[1], a[2], a[3], b[0], b[1]);
    mma<kIsBfloat>(second, a[0], a[1], a[2], a[3], b[2], b[3]);
  }
  /// Masks the positions that a line does not see.
  __device__ void mask(float (&scores)[kStep / 8][4], std::uint32_t at) const {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t first = first_seen(position_[half]);
#pragma unroll
      for (unsigned i = 0; i < kStep / 8; ++i)
#pragma unroll
        for (unsigned j = 0; j < 2; ++j) {
          const std::uint32_t position = at + i * 8 + lane_ % 4 * 2 + j;
          if (position < first || position > position_[half]) scores[i][half * 2 + j] = -INFINITY;
        }
    }
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
      write_lines(chunk, lines, plane == 0 ? a_.y : a_.y_rest);
      __syncwarp();
    }
  }
  __device__ void write_lines(const Chunk& chunk, const std::uint16_t* lines, std::uint16_t* to) {
    for (unsigned index = lane_; index < 16 * kEights; index += 32) {
      const unsigned line = warp_ * 16 + index / kEights;
      const unsigned dimension = index % kEights * 8;
      const std::uint32_t row = line / group_;
      if (row >= chunk.rows || dimension >= a_.kv.head_size) continue;
      const std::uint32_t head = chunk.kv_head * group_ + line % group_;
      std::uint16_t* y =
          to + (std::uint64_t{chunk.row + row} * a_.heads + head) * a_.kv.head_size + dimension;
      *reinterpret_cast<uint4*>(y) =
          *reinterpret_cast<const uint4*>(lines + in_values(index / kEights, dimension));
    }
  }

  const Args& a_;
  Shared& shared_;
  FixedSplits splits_;
  std::uint32_t group_;
  unsigned lane_;
  unsigned warp_;
  std::uint32_t page_bits_;
  std::int32_t page_ = 0;
  std::uint32_t position_[2];  // of this lane's two lines
  uint4 queries_[kFolds ? kSize / 16 : 1];
  // Of a quarter, and then of what it was folded behind.
  float max_[2];        // what weights are relative to, in units of log2
  float totals_[2][2];  // of this lane's positions, the even ones and the odd ones
  float total_[2];
  float sums_[kSize / 8][4];
  Aside split_;
  Aside all_;
};

}  // namespace attacca::kernels::attending
