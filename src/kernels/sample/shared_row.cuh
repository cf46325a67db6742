// shared_row.cuh: a row of logits that the blocks of a cluster search together. Each warp reads
// chunks of 128 tokens, once more for every query, since the row stays in L2. Chunks whose highest
// logit is too low are skipped. Sums are of integers, so they do not depend on the number of
// blocks. sample_row.cuh builds the sampler from these queries.
#pragma once

#include <cstdint>

#include "kernels/sample/cluster.cuh"
#include "kernels/sample/sample.hpp"
#include "kernels/sample/sampling.hpp"
#include "kernels/sample/token_key.cuh"
#include "kernels/sample/warp_sums.cuh"

namespace attacca::kernels {

/// All threads of the cluster call all functions together. With `kChanged` a query sees the logits
/// after bias, penalties and mask, otherwise those in memory: the model's, unless a scan stored the
/// changed ones.
template <unsigned kBlocks>
class SharedRow {
 public:
  static constexpr unsigned kThreads = SampleShape::kThreads;
  static constexpr unsigned kWarps = kThreads / 32;
  static constexpr unsigned kChunk = SampleShape::kChunk;
  static constexpr unsigned kRuns =
      kChunk / 32;  // 32 neighbouring tokens of a chunk, one for each lane
  using Values = float[kRuns];
  static constexpr unsigned kGroups = 256;  // of a row, each with a known maximum
  static constexpr unsigned kOwnGroups = kGroups / kBlocks;
  static constexpr unsigned kGroupLanes = kThreads / kOwnGroups;
  static_assert(kGroupLanes <= 32);

  /// Other blocks read these through DSMEM. Double-buffered fields: a round writes one buffer while
  /// others may still read the one of the round before. The next round that writes the same buffer
  /// starts behind a barrier that all readers have reached.
  struct Shared {
    std::uint64_t best[2];
    std::uint64_t sums[2][2];
    float groups[2][kOwnGroups];
    std::uint64_t broadcast;  // a key that one block writes to all
    // Only this block uses these.
    std::uint64_t warps[2][kWarps];
    float gathered[kGroups];
    float bound;
  };

  /// The result of a scan of the whole row.
  struct Scan {
    std::uint64_t best;  // the key of the first token in the order of comes_before
    bool is_finite;      // whether all logits are
  };
  /// Sums over the row, of the weights and of the second value of `weigh`.
  struct Sums {
    std::uint64_t weights;
    std::uint64_t all;
  };

  /// `memory` is this block's, `bytes_for` bytes.
  __device__ SharedRow(const SampleArgs& args, std::uint32_t row, Shared& shared, void* memory)
      : params(args.params[args.slots[row]]),
        tokens(args, static_cast<std::uint32_t>(args.slots[row])),
        vocabulary(args.vocabulary),
        logits(args.logits + static_cast<std::uint64_t>(row) * vocabulary),
        rank(blockIdx.x % kBlocks),
        shared_(shared),
        first_(min(vocabulary, rank * chunks_of_block(vocabulary) * kChunk)),
        last_(min(vocabulary, first_ + chunks_of_block(vocabulary) * kChunk)),
        chunks_((last_ - first_ + kChunk - 1) / kChunk),
        chunk_masses_(static_cast<std::uint64_t*>(memory)),
        chunk_maxima_(reinterpret_cast<float*>(chunk_masses_ + chunks_of_block(vocabulary))),
        chunk_biases_(
            reinterpret_cast<std::uint16_t*>(chunk_maxima_ + chunks_of_block(vocabulary))),
        penalties_(params) {}

  static constexpr unsigned bytes_for(std::uint32_t vocabulary) {
    return static_cast<unsigned>(
        chunks_of_block(vocabulary) *
            (sizeof(std::uint64_t) + sizeof(float) + sizeof(std::uint16_t)) +
        sizeof(std::uint16_t));
  }

  const SamplingParams& params;
  const TokensOfSlot tokens;
  const std::uint32_t vocabulary;
  float* const logits;
  const unsigned rank;  // in the cluster

  __device__ static unsigned warp() { return threadIdx.x / 32; }
  __device__ static unsigned lane() { return threadIdx.x % 32; }
  __device__ bool is_changed() const {
    return tokens.marks || tokens.allowed || params.biases != 0;
  }
  /// Maps NaN to minus infinity, and -0 to 0.
  __device__ static float number(float value) { return value == value ? value + 0.0f : -INFINITY; }
  __device__ bool is_own(std::uint32_t token) const { return token < last_; }

  // --- queries -----------------------------------------------------------------------------------

  /// Calls `take(chunk, token, values, stored)` for this warp's chunks. values[i] is the logit of
  /// token + 32 * i, and stored[i] what memory holds for it; both are minus infinity past the
  /// block's last token. A token is always visited by the same thread.
  template <bool kChanged, class Take>
  __device__ void for_each_chunk(Take take) const {
    visit_chunks<kChanged>([](std::uint32_t) { return true; }, take);
  }
  /// The same for the chunks that have a logit of at least `least`, by the maxima of the last scan.
  template <bool kChanged, class Take>
  __device__ void for_each_chunk_from(float least, Take take) const {
    visit_chunks<kChanged>([&](std::uint32_t chunk) { return !(chunk_maxima_[chunk] < least); },
                           take);
  }

  /// Finds where the biases of each chunk begin. Called before the first query with `kChanged`.
  __device__ void sort_biases() {
    for (std::uint32_t chunk = threadIdx.x; chunk <= chunks_; chunk += kThreads) {
      const auto first = static_cast<std::int32_t>(first_ + chunk * kChunk);
      std::uint32_t begin = 0;  // biases of tokens before the chunk
      for (std::uint32_t end = params.biases; begin < end;) {
        const std::uint32_t middle = (begin + end) / 2;
        if (tokens.bias[middle].token < first)
          begin = middle + 1;
        else
          end = middle;
      }
      chunk_biases_[chunk] = static_cast<std::uint16_t>(begin);
    }
    __syncthreads();
  }

  /// Scans the row. Keeps the maxima of groups for `bound_of`, and with `keeps_maxima` those of
  /// chunks. With `kStores` the changed logits replace the model's in memory.
  template <bool kChanged, bool kStores = false>
  __device__ Scan scan(bool keeps_maxima) {
    static_assert(kChanged || !kStores);
    float highest = -INFINITY;
    std::uint32_t best = first_;
    bool is_finite = true;
    for_each_chunk<kChanged>(
        [&](std::uint32_t chunk, std::uint32_t token, const Values& values, const Values& stored) {
          float chunk_max = -INFINITY;
#pragma unroll
          for (unsigned run = 0; run < kRuns; ++run) {
            const float value = number(values[run]);
            if ((!kChanged || kStores) && is_own(token + 32 * run))
              is_finite = is_finite && fabsf(stored[run]) < INFINITY;
            if (kStores && is_own(token + 32 * run)) logits[token + 32 * run] = value;
            chunk_max = fmaxf(chunk_max, value);
            if (value > highest) {
              highest = value;
              best = token + 32 * run;
            }
          }
          if (!keeps_maxima) return;
          const std::uint32_t warp_max = __reduce_max_sync(~0u, TokenKey::ordered(chunk_max));
          if (lane() == 0) chunk_maxima_[chunk] = TokenKey::from_ordered(warp_max);
        });
    groups_buffer_ = next_buffer();
    float group_max = highest;
#pragma unroll
    for (unsigned step = kGroupLanes / 2; step != 0; step /= 2)
      group_max = fmaxf(group_max, __shfl_xor_sync(~0u, group_max, step));
    if (lane() % kGroupLanes == 0)
      shared_.groups[groups_buffer_][threadIdx.x / kGroupLanes] = group_max;
    std::uint64_t key = max_of_warp(TokenKey::of(highest, min(best, vocabulary - 1)));
    if (__any_sync(~0u, !is_finite)) key = kNotFinite;
    return best_of_row(key);
  }

  /// A lower bound of the `count` highest logits of the last scan: the group maximum of rank
  /// `count`. REQUIRES: count <= kGroups.
  __device__ float bound_of(unsigned count) {
    const unsigned at = threadIdx.x;
    float mine = 0;
    if (at < kGroups) {
      mine = *map_shared_rank(&shared_.groups[groups_buffer_][at % kOwnGroups], at / kOwnGroups);
      shared_.gathered[at] = mine;
    }
    __syncthreads();
    if (at < kGroups) {
      unsigned before = 0;
#pragma unroll 8
      for (unsigned other = 0; other < kGroups; ++other) {
        const float value = shared_.gathered[other];
        before += value > mine || (value == mine && other < at);
      }
      if (before == count - 1) shared_.bound = mine;
    }
    __syncthreads();
    return shared_.bound;
  }

  /// Sums `weigh(logit, token, more)`, an integer as a float, by chunk and over the row. With
  /// `kHasMore` it also sums what `weigh` stores in `more`. REQUIRES: logits below `least` weigh 0.
  template <bool kChanged, bool kHasMore = false, class Weigh>
  __device__ Sums sum_weights(float least, Weigh weigh) {
    Sums mine{0, 0};  // of this warp's chunks
    for (std::uint32_t chunk = warp() + lane() * kWarps; chunk < chunks_; chunk += kThreads)
      chunk_masses_[chunk] = 0;
    __syncwarp();
    for_each_chunk_from<kChanged>(
        least, [&](std::uint32_t chunk, std::uint32_t token, const Values& values, const Values&) {
          FloatMass weights;
          FloatMass all;
#pragma unroll
          for (unsigned run = 0; run < kRuns; ++run) {
            float more = 0;
            if (is_own(token + 32 * run)) weights.add(weigh(values[run], token + 32 * run, more));
            if (kHasMore) all.add(more);
          }
          const std::uint64_t sum = weights.over_warp().whole();
          mine.weights += sum;
          if (kHasMore) mine.all += all.over_warp().whole();
          if (lane() == 0) chunk_masses_[chunk] = sum;
        });
    return sums_of_row<kHasMore>(mine);
  }

  /// The key of the token that covers `point`, with the weights of the last sum_weights laid end to
  /// end by token id.
  template <bool kChanged, class Weigh>
  __device__ std::uint64_t find(std::uint64_t point, Weigh weigh) {
    if (point >= before_ && point - before_ < own_ && warp() == 0)
      find_in_block<kChanged>(point - before_, weigh);
    sync();
    return shared_.broadcast;
  }

  // --- the cluster -------------------------------------------------------------------------------

  __device__ static void sync() { Cluster<kBlocks>::sync(); }
  template <class T>
  __device__ static T* map_shared_rank(T* own, unsigned other) {
    return Cluster<kBlocks>::map_shared_rank(own, other);
  }
  /// The key that was last sent to all blocks, after a barrier.
  __device__ std::uint64_t broadcast_key() const { return shared_.broadcast; }
  __device__ void send_key(unsigned other, std::uint64_t key) {
    *map_shared_rank(&shared_.broadcast, other) = key;
  }

 private:
  static constexpr std::uint64_t kNotFinite = ~0ull;  // above all keys

  ATTACCA_HD static constexpr std::uint32_t chunks_of_block(std::uint32_t vocabulary) {
    return ((vocabulary + kChunk - 1) / kChunk + kBlocks - 1) / kBlocks;
  }
  __device__ unsigned next_buffer() { return buffer_ ^= 1; }
  __device__ std::uint32_t token_of(std::uint32_t chunk, unsigned run) const {
    return first_ + chunk * kChunk + run * 32 + lane();
  }
  /// What memory holds for a token.
  struct Read {
    float logit;
    std::uint16_t mark;
    std::uint32_t allowed;  // the word of the mask with its bit
  };
  template <bool kChanged>
  __device__ Read read(std::uint32_t token, bool is_wanted = true) const {
    is_wanted = is_wanted && is_own(token);
    Read read{is_wanted ? logits[token] : -INFINITY, 0, ~0u};
    if (kChanged && is_wanted && tokens.marks) read.mark = tokens.marks[token];
    if (kChanged && is_wanted && tokens.allowed) read.allowed = tokens.allowed[token / 32];
    return read;
  }
  /// A logit of a chunk after bias, penalties and mask.
  __device__ float changed(const Read& read, std::uint32_t chunk, std::uint32_t token) const {
    float logit = read.logit;
    for (std::uint32_t at = chunk_biases_[chunk]; at < chunk_biases_[chunk + 1]; ++at)
      if (tokens.bias[at].token == static_cast<std::int32_t>(token)) logit += tokens.bias[at].bias;
    logit = penalties_.apply(logit, read.mark);
    return (read.allowed >> token % 32 & 1) != 0 ? number(logit) : -INFINITY;
  }

  template <bool kChanged, class IsWanted, class Take>
  __device__ void visit_chunks(IsWanted is_wanted, Take take) const {
    constexpr unsigned kAtOnce =
        kChanged ? 2
                 : 4;  // chunks in flight; four spill with kChanged (docs/trials.md, "Sampling")
    for (std::uint32_t first = warp(); first < chunks_; first += kWarps * kAtOnce) {
      Read reads[kAtOnce][kRuns];
      bool wanted[kAtOnce];
#pragma unroll
      for (unsigned at = 0; at < kAtOnce; ++at) {
        const std::uint32_t chunk = first + at * kWarps;
        wanted[at] = chunk < chunks_ && is_wanted(chunk);
#pragma unroll
        for (unsigned run = 0; run < kRuns; ++run)
          reads[at][run] = read<kChanged>(token_of(chunk, run), wanted[at]);
      }
#pragma unroll
      for (unsigned at = 0; at < kAtOnce; ++at) {
        if (!wanted[at]) continue;
        const std::uint32_t chunk = first + at * kWarps;
        Values values, stored;
#pragma unroll
        for (unsigned run = 0; run < kRuns; ++run) {
          stored[run] = reads[at][run].logit;
          values[run] =
              kChanged ? changed(reads[at][run], chunk, token_of(chunk, run)) : stored[run];
        }
        take(chunk, token_of(chunk, 0), values, stored);
      }
    }
  }

  /// Reduces the best key of each warp to the row's.
  __device__ Scan best_of_row(std::uint64_t key) {
    if (lane() == 0) shared_.warps[0][warp()] = key;
    __syncthreads();
    if (warp() == 0) {
      const std::uint64_t block_best = max_of_warp(shared_.warps[0][lane()]);
      if (lane() == 0) shared_.best[groups_buffer_] = block_best;
    }
    sync();
    key = 0;
#pragma unroll
    for (unsigned other = 0; other < kBlocks; ++other) {
      const std::uint64_t theirs = *map_shared_rank(&shared_.best[groups_buffer_], other);
      key = theirs > key ? theirs : key;
    }
    if (key == kNotFinite) return {TokenKey::of(-INFINITY, 0), false};
    return {key, true};
  }

  /// Reduces the sums of each warp to the row's.
  template <bool kHasMore>
  __device__ Sums sums_of_row(const Sums& mine) {
    const unsigned buffer = next_buffer();
    if (lane() == 0) {
      shared_.warps[0][warp()] = mine.weights;
      if (kHasMore) shared_.warps[1][warp()] = mine.all;
    }
    __syncthreads();
    if (warp() == 0) {
      const std::uint64_t weights = sum_of_warp(shared_.warps[0][lane()]);
      const std::uint64_t all = kHasMore ? sum_of_warp(shared_.warps[1][lane()]) : 0;
      if (lane() == 0) {
        shared_.sums[buffer][0] = weights;
        shared_.sums[buffer][1] = all;
      }
    }
    sync();
    Sums sums{0, 0};
    before_ = 0;
#pragma unroll
    for (unsigned other = 0; other < kBlocks; ++other) {
      const std::uint64_t theirs = *map_shared_rank(&shared_.sums[buffer][0], other);
      if (other < rank) before_ += theirs;
      if (other == rank) own_ = theirs;
      sums.weights += theirs;
      if (kHasMore) sums.all += *map_shared_rank(&shared_.sums[buffer][1], other);
    }
    return sums;
  }

  /// Finds the token at `point` of this block: first the lane's run of chunks, then the chunk, the
  /// run and the lane. One warp calls.
  template <bool kChanged, class Weigh>
  __device__ void find_in_block(std::uint64_t point, Weigh weigh) {
    const std::uint32_t each = (chunks_ + 31) / 32;
    const std::uint32_t begin = min(chunks_, lane() * each);
    const std::uint32_t end = min(chunks_, begin + each);
    std::uint64_t mine = 0;
    for (std::uint32_t chunk = begin; chunk < end; ++chunk) mine += chunk_masses_[chunk];
    const unsigned owner = lane_at(mine, point);
    std::uint32_t chunk = __shfl_sync(~0u, begin, static_cast<int>(owner));
    for (; point >= chunk_masses_[chunk]; ++chunk) point -= chunk_masses_[chunk];
    for (unsigned run = 0; run < kRuns; ++run) {
      const std::uint32_t token = token_of(chunk, run);
      FloatMass mass;
      float value = -INFINITY;
      float more = 0;
      if (is_own(token)) {
        const Read one = read<kChanged>(token);
        value = kChanged ? changed(one, chunk, token) : one.logit;
        mass.add(weigh(value, token, more));
      }
      const std::uint64_t run_mass = sum_of_warp(mass.whole());
      if (point >= run_mass) {
        point -= run_mass;
        continue;
      }
      if (lane() == lane_at(mass.whole(), point))
        for (unsigned other = 0; other < kBlocks; ++other)
          send_key(other, TokenKey::of(number(value), token));
      return;
    }
  }

  Shared& shared_;
  // This block's tokens are [first_, last_).
  std::uint32_t first_;
  std::uint32_t last_;
  std::uint32_t chunks_;
  std::uint64_t* chunk_masses_;  // [chunks]
  float* chunk_maxima_;          // [chunks]
  std::uint16_t* chunk_biases_;  // [chunks + 1]: index of a chunk's first bias
  Penalties penalties_;
  unsigned buffer_ = 0;
  unsigned groups_buffer_ = 0;
  std::uint64_t before_ = 0;  // sum of the weights of the blocks before this one
  std::uint64_t own_ = 0;     // sum of this block's weights
};

}  // namespace attacca::kernels
