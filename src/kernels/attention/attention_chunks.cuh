// attention_chunks.cuh: attention for neighbouring rows of one slot (prefill), one Chunk at a time.
// A chunk has up to 64 lines; a line is one query, of one row and one head of a kv head's group.
// Each of four warps has 16 lines. Keys and values go through two stages in shared memory: while
// one is multiplied, the next is loaded. Rows that are alone in their slot are left to
// attention_rows.cuh.
//
// Queries and softmax weights are sums of two 16-bit numbers and so nearly exact, as for single
// rows. So it hardly matters how rows are grouped.
//
// Positions are visited in steps that begin at multiples of the step size, and masked positions add
// exact zeros. So a row's result is the same bits in any chunk, but not those of a single row: that
// is left to attention_fixed_chunks.cuh.
#pragma once

#include "kernels/attention/attention_chunk_lines.cuh"

namespace attacca::kernels::attending {

/// The fastest way, through all positions in one piece.
template <class Args, KvType kType, unsigned kSize>
class ChunkTiles : ChunkLines<Args, kType, kSize> {
  using Lines = ChunkLines<Args, kType, kSize>;
  using Lines::a_, Lines::group_, Lines::lane_, Lines::warp_, Lines::kIsBfloat;

 public:
  static constexpr unsigned kStep = kSize > 128 ? 32 : 64;  // positions
  static constexpr unsigned kStride = kSize + 8;            // puts eight rows in different banks
  /// Large heads leave no registers for the queries.
  static constexpr bool kKeepsQueries = kSize <= 128;

  struct Stage {
    alignas(16) std::uint16_t keys[kStep * kStride];
    alignas(16) std::uint16_t values[kStep * kStride];
  };
  struct Shared {
    Stage stages[2];
    /// Queries, and later results on their way to memory. Where registers hold the queries, they
    /// lie here only until the second step is loaded.
    alignas(16) std::uint16_t own_lines[kKeepsQueries ? 8 : kLines * kStride];
    alignas(16) std::uint16_t rests[kLines * kStride];  // the queries' rounding errors

    __device__ std::uint16_t* lines() {
      if constexpr (kKeepsQueries)
        return stages[1].keys;
      else
        return own_lines;
    }
  };
  static_assert(!kKeepsQueries || kLines * kStride <= 2 * kStep * kStride);

  __device__ ChunkTiles(const Args& args, Shared& shared, std::uint32_t group)
      : Lines(args, group), shared_(shared) {}

  /// REQUIRES: no thread still uses the shared memory. Returns without a barrier.
  __device__ void run(const Chunk& chunk) {
    const std::uint32_t last = chunk.position + chunk.rows - 1;
    const std::uint32_t begin = Lines::first_seen(chunk.position) / kStep * kStep;
    const std::uint32_t steps = (last - begin) / kStep + 1;
    Lines::load_pages(chunk, begin, last);
    load(chunk, begin, begin, last, 0);
    cp_async_commit();
    store_queries(chunk);
    __syncthreads();
    if constexpr (kKeepsQueries) {
#pragma unroll
      for (unsigned part = 0; part < kSize / 16; ++part) load_query(part, queries_[part]);
      __syncthreads();
    }
    clear(chunk);
    for (std::uint32_t step = 0; step < steps; ++step) {
      const std::uint32_t at = begin + step * kStep;
      if (step + 1 < steps) load(chunk, begin, at + kStep, last, (step + 1) % 2);
      cp_async_commit();
      cp_async_wait<1>();
      __syncthreads();
      attend(shared_.stages[step % 2], at, chunk);
      __syncthreads();
    }
    store_results(chunk);
  }

 private:
  __device__ void load(const Chunk& chunk, std::uint32_t begin, std::uint32_t at,
                       std::uint32_t last, unsigned stage) {
    Stage& to = shared_.stages[stage];
    Lines::template load<kStep>(
        chunk, begin, at, last,
        [&](unsigned row, unsigned dimension) { return to.keys + row * kStride + dimension; },
        [&](unsigned row, unsigned dimension) { return to.values + row * kStride + dimension; });
  }

  // Queries. Line i is row i / group and head i % group.

  __device__ void store_queries(const Chunk& chunk) {
    const float factor = a_.scale * 1.4426950408889634f;
    for (unsigned line = warp_; line < kLines; line += kThreads / 32) {
      const std::uint32_t row = line / group_;
      const std::uint32_t head = chunk.kv_head * group_ + line % group_;
      const float* q = a_.q + std::uint64_t{chunk.row + row} * a_.q_stride +
                       std::uint64_t{head} * a_.kv.head_size;
      for (unsigned at = 2 * lane_; at < kSize; at += 64) {
        const bool is_there = row < chunk.rows && at < a_.kv.head_size;
        const float2 two = is_there ? *reinterpret_cast<const float2*>(q + at) : float2{};
        const float first = two.x * factor;
        const float second = two.y * factor;
        const std::uint32_t pair = pair_of<kIsBfloat>(first, second);
        *reinterpret_cast<std::uint32_t*>(shared_.lines() + line * kStride + at) = pair;
        *reinterpret_cast<std::uint32_t*>(shared_.rests + line * kStride + at) =
            rest_of<kIsBfloat>(first, second, pair);
      }
    }
  }
  /// Loads 16 dimensions of this warp's 16 lines.
  __device__ void load_query(unsigned part, std::uint32_t (&to)[4]) {
    load_lines(shared_.lines(), part, to);
  }
  __device__ void load_lines(const std::uint16_t* lines, unsigned part, std::uint32_t (&to)[4]) {
    const unsigned line = warp_ * 16 + lane_ % 16;
    ldmatrix(lines + line * kStride + part * 16 + lane_ / 16 * 8, to);
  }

  __device__ void clear(const Chunk& chunk) {
    Lines::find_positions(chunk, warp_ * 16);
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      max_[half] = -INFINITY;
      total_[half] = 0;
    }
    Lines::clear(sums_);
  }

  __device__ void attend(const Stage& stage, std::uint32_t at, const Chunk& chunk) {
    float scores[kStep / 8][4];
    Lines::clear(scores);
#pragma unroll
    for (unsigned part = 0; part < kSize / 16; ++part) {
      std::uint32_t query[4];
      if constexpr (!kKeepsQueries) load_query(part, query);
      const std::uint32_t(&q)[4] = kKeepsQueries ? queries_[kKeepsQueries ? part : 0] : query;
      std::uint32_t rest[4];
      load_lines(shared_.rests, part, rest);
#pragma unroll
      for (unsigned i = 0; i < kStep / 16; ++i) {
        const unsigned row = i * 16 + lane_ / 16 * 8 + lane_ % 8;
        const unsigned offset_in_stage = row * kStride + part * 16 + lane_ / 8 % 2 * 8;
        std::uint32_t keys[4];
        ldmatrix(stage.keys + offset_in_stage, keys);
        Lines::mma_two(scores[2 * i], scores[2 * i + 1], q, keys);
        Lines::mma_two(scores[2 * i], scores[2 * i + 1], rest, keys);
      }
    }
    const bool sees_all = at + kStep - 1 <= chunk.position &&
                          at >= Lines::first_seen(chunk.position + chunk.rows - 1);
    if (!sees_all) Lines::mask(scores, at);
    update_softmax(scores);
#pragma unroll
    for (unsigned i = 0; i < kStep / 16; ++i) {
      std::uint32_t weights[4];
      std::uint32_t rests[4];
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        const float first = scores[2 * i + j / 2][j % 2 * 2];
        const float second = scores[2 * i + j / 2][j % 2 * 2 + 1];
        total_[j % 2] += first + second;
        weights[j] = pair_of<kIsBfloat>(first, second);
        rests[j] = rest_of<kIsBfloat>(first, second, weights[j]);
      }
#pragma unroll
      for (unsigned part = 0; part < kSize / 16; ++part) {
        const unsigned row = i * 16 + lane_ % 16;
        const unsigned offset_in_stage = row * kStride + part * 16 + lane_ / 16 * 8;
        std::uint32_t values[4];
        ldmatrix_transposed(stage.values + offset_in_stage, values);
        Lines::mma_two(sums_[2 * part], sums_[2 * part + 1], weights, values);
        Lines::mma_two(sums_[2 * part], sums_[2 * part + 1], rests, values);
      }
    }
  }
  /// Online softmax: turns scores into weights and rescales the sums to the new maximum.
  __device__ void update_softmax(float (&scores)[kStep / 8][4]) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float most = max_[half];
#pragma unroll
      for (unsigned i = 0; i < kStep / 8; ++i)
        most = fmaxf(most, fmaxf(scores[i][half * 2], scores[i][half * 2 + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float base = most == -INFINITY ? 0 : most;  // a line may have seen nothing yet
      const float factor = fast_exp2(max_[half] - base);
      max_[half] = most;
      total_[half] *= factor;
#pragma unroll
      for (unsigned i = 0; i < kStep / 8; ++i)
#pragma unroll
        for (unsigned j = 0; j < 2; ++j)
          scores[i][half * 2 + j] = fast_exp2(scores[i][half * 2 + j] - base);
#pragma unroll
      for (unsigned i = 0; i < kSize / 8; ++i)
#pragma unroll
        for (unsigned j = 0; j < 2; ++j) sums_[i][half * 2 + j] *= factor;
    }
  }

  /// Each warp stores its own lines, through shared memory so that rows are written whole.
  __device__ void store_results(const Chunk& chunk) {
    std::uint16_t* const lines = shared_.lines() + warp_ * 16 * kStride;
    std::uint16_t* const rests = shared_.rests + warp_ * 16 * kStride;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float total = total_[half];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      const float factor = 1 / total;
      const unsigned line = (lane_ / 4 + half * 8) * kStride + lane_ % 4 * 2;
#pragma unroll
      for (unsigned i = 0; i < kSize / 8; ++i) {
        const float first = sums_[i][half * 2] * factor;
        const float second = sums_[i][half * 2 + 1] * factor;
        const std::uint32_t pair = pair_of<true>(first, second);
        *reinterpret_cast<std::uint32_t*>(lines + line + i * 8) = pair;
        if (a_.y_rest)
          *reinterpret_cast<std::uint32_t*>(rests + line + i * 8) =
              rest_of<true>(first, second, pair);
      }
    }
    __syncwarp();
    write_lines(chunk, lines, a_.y);
    if (a_.y_rest) write_lines(chunk, rests, a_.y_rest);
  }
  __device__ void write_lines(const Chunk& chunk, const std::uint16_t* lines, std::uint16_t* to) {
    Lines::template write_lines<kSize>(
        chunk, warp_ * 16, 0, to,
        [&](unsigned line, unsigned dimension) { return lines + line * kStride + dimension; });
  }

  Shared& shared_;
  float max_[2];    // in units of log2
  float total_[2];  // of this lane's positions
  std::uint32_t queries_[kKeepsQueries ? kSize / 16 : 1][4];
  float sums_[kSize / 8][4];
};

}  // namespace attacca::kernels::attending
