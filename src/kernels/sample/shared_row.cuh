// shared_row.cuh: a row of logits, shared by the blocks of a cluster. Each warp goes through chunks
// of 128 tokens, again for every question that is asked: the row stays in L2. Chunks that cannot
// matter, by their highest logit, are passed over. Integers make sums the same however many blocks
// there are.
#pragma once

#include <cstdint>

#include "kernels/sample/cluster.cuh"
#include "kernels/sample/sample.hpp"
#include "kernels/sample/sampling.hpp"
#include "kernels/sample/token_key.cuh"
#include "kernels/sample/warp_sums.cuh"

namespace attacca::kernels {

/// All threads of all blocks of the cluster call all functions, together. `kChanged` asks of logits
/// after bias, penalties and mask, else of those that the model gave.
template <unsigned kBlocks>
class SharedRow {
 public:
  static constexpr unsigned kThreads = SampleShape::kThreads;
  static constexpr unsigned kWarps = kThreads / 32;
  static constexpr unsigned kChunk = SampleShape::kChunk;
  static constexpr unsigned kRuns = kChunk / 32;  // of a chunk: tokens side by side in a warp
  using Values = float[kRuns];
  static constexpr unsigned kGroups = 256;  // of a row: lanes whose highest logit is known
  static constexpr unsigned kOwnGroups = kGroups / kBlocks;
  static constexpr unsigned kGroupLanes = kThreads / kOwnGroups;
  static_assert(kGroupLanes <= 32);

  /// Read by other blocks. What alternates is written by one round while others may still read what
  /// the round before it wrote; the one after that starts behind a barrier that all readers have
  /// come to.
  struct Shared {
    std::uint64_t best[2];
    std::uint64_t sums[2][2];
    float groups[2][kOwnGroups];
    std::uint64_t told;  // to all blocks by one
    // Of this block.
    std::uint64_t warps[2][kWarps];
    float gathered[kGroups];
    float bound;
  };

  /// What a look at the whole row tells.
  struct Look {
    std::uint64_t best;  // the key of the token that comes before all others
    bool is_finite;      // all logits are
  };
  /// Sums over the row: of weights that were laid out, and another one.
  struct Sums {
    std::uint64_t laid;
    std::uint64_t all;
  };

  /// `memory`: of this block, as much as `bytes_for` says.
  __device__ SharedRow(const SampleArgs& args, std::uint32_t row, Shared& shared, void* memory)
      : params(args.params[args.slots[row]]),
        tokens(args, static_cast<std::uint32_t>(args.slots[row])),
        vocabulary(args.vocabulary),
        raw(args.logits + static_cast<std::uint64_t>(row) * vocabulary),
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
  const float* const raw;
  const unsigned rank;  // of the block in its cluster

  __device__ static unsigned warp() { return threadIdx.x / 32; }
  __device__ static unsigned lane() { return threadIdx.x % 32; }
  __device__ bool is_changed() const {
    return tokens.marks || tokens.allowed || params.biases != 0;
  }
  /// What is not a number counts as minus infinity, and -0 as 0.
  __device__ static float number(float value) { return value == value ? value + 0.0f : -INFINITY; }
  __device__ bool is_there(std::uint32_t token) const { return token < last_; }

  // --- questions ---------------------------------------------------------------------------------

  /// Calls `take(chunk, token, values)` with this warp's chunks: run i has the tokens from
  /// `token + 32 * i` on, where token is this lane's of the first run; minus infinity where it is
  /// not there.
  template <bool kChanged, class Take>
  __device__ void for_each_chunk(Take take) const {
    walk<kChanged>([](std::uint32_t) { return true; }, take);
  }
  /// The same, of the chunks that have a logit from `least` on, as `look` saw them last.
  template <bool kChanged, class Take>
  __device__ void for_each_chunk_from(float least, Take take) const {
    walk<kChanged>([&](std::uint32_t chunk) { return !(chunk_maxima_[chunk] < least); }, take);
  }

  /// Before the first question with `kChanged`.
  __device__ void sort_biases() {
    for (std::uint32_t chunk = threadIdx.x; chunk <= chunks_; chunk += kThreads) {
      const auto first = static_cast<std::int32_t>(first_ + chunk * kChunk);
      std::uint32_t begin = 0;  // how many are of tokens before the chunk
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

  /// Leaves the maxima of groups for `bound_of`, and with `keeps_maxima` those of chunks.
  template <bool kChanged>
  __device__ Look look(bool keeps_maxima) {
    float highest = -INFINITY;
    std::uint32_t best = first_;
    bool is_finite = true;
    for_each_chunk<kChanged>([&](std::uint32_t chunk, std::uint32_t token, const Values& values) {
      float of_chunk = -INFINITY;
#pragma unroll
      for (unsigned run = 0; run < kRuns; ++run) {
        const float value = number(values[run]);
        if (!kChanged && is_there(token + 32 * run))
          is_finite = is_finite && fabsf(values[run]) < INFINITY;
        of_chunk = fmaxf(of_chunk, value);
        if (value > highest) {
          highest = value;
          best = token + 32 * run;
        }
      }
      if (!keeps_maxima) return;
      const std::uint32_t of_warp = __reduce_max_sync(~0u, TokenKey::ordered(of_chunk + 0.0f));
      if (lane() == 0) chunk_maxima_[chunk] = TokenKey::from_ordered(of_warp);
    });
    groups_turn_ = next_turn();
    float of_group = highest;
#pragma unroll
    for (unsigned step = kGroupLanes / 2; step != 0; step /= 2)
      of_group = fmaxf(of_group, __shfl_xor_sync(~0u, of_group, step));
    if (lane() % kGroupLanes == 0)
      shared_.groups[groups_turn_][threadIdx.x / kGroupLanes] = of_group;
    std::uint64_t key = max_of_warp(TokenKey::of(highest, min(best, vocabulary - 1)));
    if (__any_sync(~0u, !is_finite)) key = kNotFinite;
    return best_of_row(key);
  }

  /// A logit that `count` tokens have at least, as `look` saw them last. REQUIRES: count <=
  /// kGroups.
  __device__ float bound_of(unsigned count) {
    const unsigned at = threadIdx.x;
    float mine = 0;
    if (at < kGroups) {
      mine = *of_block(&shared_.groups[groups_turn_][at % kOwnGroups], at / kOwnGroups);
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

  /// Sums `weigh(logit, token, more)`, an integer as a float, by chunk, and with `kHasMore` what it
  /// writes to its last argument. REQUIRES: logits below `least` weigh nothing.
  template <bool kChanged, bool kHasMore = false, class Weigh>
  __device__ Sums lay_out(float least, Weigh weigh) {
    Sums mine{0, 0};  // of this warp
    for (std::uint32_t chunk = warp() + lane() * kWarps; chunk < chunks_; chunk += kThreads)
      chunk_masses_[chunk] = 0;
    __syncwarp();
    for_each_chunk_from<kChanged>(
        least, [&](std::uint32_t chunk, std::uint32_t token, const Values& values) {
          FloatMass laid;
          FloatMass all;
#pragma unroll
          for (unsigned run = 0; run < kRuns; ++run) {
            float more = 0;
            if (is_there(token + 32 * run)) laid.add(weigh(values[run], token + 32 * run, more));
            if (kHasMore) all.add(more);
          }
          const std::uint64_t sum = laid.over_warp().whole();
          mine.laid += sum;
          if (kHasMore) mine.all += all.over_warp().whole();
          if (lane() == 0) chunk_masses_[chunk] = sum;
        });
    return sums_of_row<kHasMore>(mine);
  }

  /// The key of the token at `point` of what was laid out last, end to end by id.
  template <bool kChanged, class Weigh>
  __device__ std::uint64_t find(std::uint64_t point, Weigh weigh) {
    if (point >= before_ && point - before_ < own_ && warp() == 0)
      find_in_block<kChanged>(point - before_, weigh);
    meet();
    return shared_.told;
  }

  // --- the cluster -------------------------------------------------------------------------------

  __device__ static void meet() { Cluster<kBlocks>::meet(); }
  template <class T>
  __device__ static T* of_block(T* own, unsigned other) {
    return Cluster<kBlocks>::of_block(own, other);
  }
  /// What was told to all blocks last, behind a barrier.
  __device__ std::uint64_t told() const { return shared_.told; }
  __device__ void tell(unsigned other, std::uint64_t key) { *of_block(&shared_.told, other) = key; }

 private:
  static constexpr std::uint64_t kNotFinite = ~0ull;  // above all keys

  ATTACCA_HD static constexpr std::uint32_t chunks_of_block(std::uint32_t vocabulary) {
    return ((vocabulary + kChunk - 1) / kChunk + kBlocks - 1) / kBlocks;
  }
  __device__ unsigned next_turn() { return turn_ ^= 1; }
  __device__ std::uint32_t token_of(std::uint32_t chunk, unsigned run) const {
    return first_ + chunk * kChunk + run * 32 + lane();
  }
  /// What is read of a token.
  struct Read {
    float logit;
    std::uint16_t mark;
    std::uint32_t allowed;  // the word of the mask that it is in
  };
  template <bool kChanged>
  __device__ Read read(std::uint32_t token, bool is_wanted = true) const {
    is_wanted = is_wanted && is_there(token);
    Read read{is_wanted ? raw[token] : -INFINITY, 0, ~0u};
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
  __device__ void walk(IsWanted is_wanted, Take take) const {
    constexpr unsigned kAtOnce = kChanged ? 2 : 4;  // chunks on their way, as registers allow
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
        Values values;
#pragma unroll
        for (unsigned run = 0; run < kRuns; ++run)
          values[run] = kChanged ? changed(reads[at][run], chunk, token_of(chunk, run))
                                 : reads[at][run].logit;
        take(chunk, token_of(chunk, 0), values);
      }
    }
  }

  /// From the best of each warp.
  __device__ Look best_of_row(std::uint64_t key) {
    if (lane() == 0) shared_.warps[0][warp()] = key;
    __syncthreads();
    if (warp() == 0) {
      const std::uint64_t of_block_here = max_of_warp(shared_.warps[0][lane()]);
      if (lane() == 0) shared_.best[groups_turn_] = of_block_here;
    }
    meet();
    key = 0;
#pragma unroll
    for (unsigned other = 0; other < kBlocks; ++other) {
      const std::uint64_t theirs = *of_block(&shared_.best[groups_turn_], other);
      key = theirs > key ? theirs : key;
    }
    if (key == kNotFinite) return {TokenKey::of(-INFINITY, 0), false};
    return {key, true};
  }

  /// From those of each warp.
  template <bool kHasMore>
  __device__ Sums sums_of_row(const Sums& mine) {
    const unsigned turn = next_turn();
    if (lane() == 0) {
      shared_.warps[0][warp()] = mine.laid;
      if (kHasMore) shared_.warps[1][warp()] = mine.all;
    }
    __syncthreads();
    if (warp() == 0) {
      const std::uint64_t laid = sum_of_warp(shared_.warps[0][lane()]);
      const std::uint64_t all = kHasMore ? sum_of_warp(shared_.warps[1][lane()]) : 0;
      if (lane() == 0) {
        shared_.sums[turn][0] = laid;
        shared_.sums[turn][1] = all;
      }
    }
    meet();
    Sums sums{0, 0};
    before_ = 0;
#pragma unroll
    for (unsigned other = 0; other < kBlocks; ++other) {
      const std::uint64_t theirs = *of_block(&shared_.sums[turn][0], other);
      if (other < rank) before_ += theirs;
      if (other == rank) own_ = theirs;
      sums.laid += theirs;
      if (kHasMore) sums.all += *of_block(&shared_.sums[turn][1], other);
    }
    return sums;
  }

  /// The lane of chunks, the chunk, the run, the token. One warp calls.
  template <bool kChanged, class Weigh>
  __device__ void find_in_block(std::uint64_t point, Weigh weigh) {
    const std::uint32_t each = (chunks_ + 31) / 32;
    const std::uint32_t begin = min(chunks_, lane() * each);
    const std::uint32_t end = min(chunks_, begin + each);
    std::uint64_t mine = 0;
    for (std::uint32_t chunk = begin; chunk < end; ++chunk) mine += chunk_masses_[chunk];
    const unsigned who = lane_at(mine, point);
    std::uint32_t chunk = __shfl_sync(~0u, begin, static_cast<int>(who));
    for (; point >= chunk_masses_[chunk]; ++chunk) point -= chunk_masses_[chunk];
    for (unsigned run = 0; run < kRuns; ++run) {
      const std::uint32_t token = token_of(chunk, run);
      FloatMass mass;
      float value = -INFINITY;
      float more = 0;
      if (is_there(token)) {
        const Read one = read<kChanged>(token);
        value = kChanged ? changed(one, chunk, token) : one.logit;
        mass.add(weigh(value, token, more));
      }
      const std::uint64_t of_run = sum_of_warp(mass.whole());
      if (point >= of_run) {
        point -= of_run;
        continue;
      }
      if (lane() == lane_at(mass.whole(), point))
        for (unsigned other = 0; other < kBlocks; ++other)
          tell(other, TokenKey::of(number(value), token));
      return;
    }
  }

  Shared& shared_;
  // This block's tokens.
  std::uint32_t first_;
  std::uint32_t last_;
  std::uint32_t chunks_;
  std::uint64_t* chunk_masses_;  // [chunks]
  float* chunk_maxima_;          // [chunks]
  std::uint16_t* chunk_biases_;  // [chunks + 1]: where those of a chunk begin
  Penalties penalties_;
  unsigned turn_ = 0;
  unsigned groups_turn_ = 0;
  std::uint64_t before_ = 0;  // laid out by the blocks before this one
  std::uint64_t own_ = 0;     // and by this one
};

}  // namespace attacca::kernels
