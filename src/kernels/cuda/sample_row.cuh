// sample_row.cuh: the CUDA body of sample.hpp. Eight blocks of a cluster share a row: each keeps
// its part of the logits in shared memory, so that every look at the row after the first is a look
// at shared memory. They meet at cluster barriers and read each other's sums through distributed
// shared memory. A cut (top-k, top-p) is found by radix select: histograms of ten bits of the key
// at a time, from the highest.
#pragma once

#include <cstdint>

#include "kernels/sample.hpp"
#include "kernels/sampling.hpp"

namespace attacca::kernels {

/// What threads of a block find of their tokens, and what becomes of it for the whole row.
struct RowLook {
  float max = -INFINITY;   // of the raw logits
  float sum = 0;           // of exp(raw - max)
  std::uint64_t best = 0;  // the highest (logit, lowest token) after penalties and bias
};

/// One row, sampled by one cluster. All threads of all its blocks call all functions, together.
class RowSampler {
 public:
  static constexpr unsigned kThreads = SampleShape::kThreads;
  static constexpr unsigned kWarps = kThreads / 32;
  static constexpr unsigned kBlocks = SampleShape::kBlocks;

  __device__ RowSampler(const SampleArgs& args, std::uint32_t row)
      : vocabulary_(args.vocabulary),
        slot_(static_cast<std::uint32_t>(args.slots[row])),
        params_(args.params[slot_]),
        forced_(is_forced(args, row) ? args.forced[row] : -1),
        raw_(args.logits + static_cast<std::uint64_t>(row) * vocabulary_),
        seen_(has_penalties(params_)
                  ? args.seen.counts + static_cast<std::uint64_t>(slot_) * vocabulary_
                  : nullptr),
        rank_(blockIdx.x % kBlocks) {
    const std::uint32_t share = SampleShape::share_of(vocabulary_);
    block_first_ = min(vocabulary_, rank_ * share);
    const std::uint32_t block_last = min(vocabulary_, block_first_ + share);
    const std::uint32_t part = (share + kWarps - 1) / kWarps;
    first_ = min(block_last, block_first_ + warp() * part);
    last_ = min(block_last, first_ + part);
  }

  __device__ void sample(std::int32_t position, Sampled& out) {
    const RowLook look = look_at_row();
    const double log_sum = look.max + log(static_cast<double>(look.sum));
    const std::uint32_t tops = min(params_.top_logprobs, vocabulary_);
    if (tops != 0) report_tops(tops, log_sum, out);
    Choice choice{static_cast<std::uint32_t>(forced_), rank_ == 0 && threadIdx.x == 0};
    if (forced_ < 0) {
      const std::uint64_t best = is_changed() ? change_logits() : look.best;
      choice.token = ~static_cast<std::uint32_t>(best);
      if (params_.temperature != 0) choice = draw(best, position);
    }
    // A block may not exit while another reads its shared memory.
    meet();
    if (!choice.is_mine) return;
    out.tops = tops;
    out.token = static_cast<std::int32_t>(choice.token);
    out.logprob = static_cast<float>(raw_[choice.token] - log_sum);
    out.ending = ending_of(params_, out.token, position);
    if (seen_) seen_[choice.token] = counted(seen_[choice.token]);
  }

 private:
  /// A token, and whether this thread is the one that says so.
  struct Choice {
    std::uint32_t token;
    bool is_mine;
  };
  /// The tokens that stay: those with a higher key, and of those with this key the first ones.
  struct Cut {
    std::uint32_t key = 0;
    std::uint32_t last_token = ~0u;
    __device__ bool keeps(std::uint32_t other_key, std::uint32_t token) const {
      return other_key > key || (other_key == key && token <= last_token);
    }
  };

  // --- keys ----------------------------------------------------------------------------------

  /// An order of floats as integers. REQUIRES: not -0, not NaN.
  __device__ static std::uint32_t ordered(float value) {
    const std::uint32_t bits = __float_as_uint(value);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
  }
  __device__ static float from_ordered(std::uint32_t key) {
    return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key);
  }
  __device__ static std::uint64_t key_of(float logit, std::uint32_t token) {
    return static_cast<std::uint64_t>(ordered(logit)) << 32 | std::uint32_t{~token};
  }
  /// What is not a number counts as minus infinity, and -0 as 0.
  __device__ static float number(float value) { return value == value ? value + 0.0f : -INFINITY; }

  // --- the blocks of a cluster -----------------------------------------------------------------

  /// All threads of all blocks. What a thread wrote before is seen after it.
  __device__ static void meet() {
    asm volatile(
        "barrier.cluster.arrive.release;\n"
        "barrier.cluster.wait.acquire;" ::
            : "memory");
  }
  /// The same place in the shared memory of another block.
  template <class T>
  __device__ static const T* of_block(const T* own, unsigned rank) {
    std::uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(rank));
    return reinterpret_cast<const T*>(there);
  }
  __device__ static unsigned warp() { return threadIdx.x / 32; }
  __device__ static unsigned lane() { return threadIdx.x % 32; }

  static constexpr unsigned kBinBits = 10;
  static constexpr unsigned kBins = 1u << kBinBits;
  static constexpr unsigned kLimbs = 3;  // of a mass, so that sums of 32 bits hold them
  static constexpr unsigned kLimbBits = 14;

  struct Shared {
    // In turn: what one round leaves to be read, the next does not overwrite, and the one after
    // that starts behind a barrier that all readers have come to.
    std::uint32_t bins[2][kLimbs][kBins];
    std::uint64_t sums[2][kWarps];
    RowLook looks[2][kWarps];
    std::uint64_t tops[SamplingParams::kMaxTop];
    std::uint32_t top_count;
    // Of this block alone.
    std::uint64_t warp_sums[kWarps];
    std::uint64_t needed;
    std::uint32_t found;
    std::uint32_t found_token;
  };
  __device__ static Shared& shared() {
    __shared__ Shared memory;
    return memory;
  }
  /// This block's part of the row: logits, later masses. By a token's distance from block_first_.
  __device__ static float* values() {
    extern __shared__ __align__(16) float sample_values[];
    return sample_values;
  }

  /// Calls `take(token, value)` for the tokens of this thread, and stores what it returns.
  template <class Take>
  __device__ void change_each(Take take) {
    float* const mine = values();
    for (std::uint32_t token = first_ + lane(); token < last_; token += 32)
      mine[token - block_first_] = take(token, mine[token - block_first_]);
  }
  template <class Take>
  __device__ void for_each(Take take) const {
    const float* const mine = values();
    for (std::uint32_t token = first_ + lane(); token < last_; token += 32)
      take(token, mine[token - block_first_]);
  }

  // --- the first look --------------------------------------------------------------------------

  /// Brings the row in, and finds what greedy sampling needs. REQUIRES: logits are written.
  __device__ RowLook look_at_row() {
    constexpr unsigned kAtOnce = 8;
    const bool is_kept = needs_values();
    RowLook look;
    for (std::uint32_t at = first_ + lane(); at < last_; at += 32 * kAtOnce) {
      float raw[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i)
        raw[i] = at + 32 * i < last_ ? number(__ldcg(raw_ + at + 32 * i)) : -INFINITY;
      float max = look.max;
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) max = fmaxf(max, raw[i]);
      if (max > -INFINITY) {
        look.sum *= expf(look.max - max);
#pragma unroll
        for (unsigned i = 0; i < kAtOnce; ++i) look.sum += expf(raw[i] - max);
      }
      look.max = max;
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const std::uint32_t token = at + 32 * i;
        if (token >= last_) continue;
        look.best = larger(look.best, key_of(raw[i], token));
        if (is_kept) values()[token - block_first_] = raw[i];
      }
    }
    return over_row(look);
  }
  __device__ bool is_changed() const { return seen_ != nullptr || params_.biases != 0; }
  __device__ bool needs_values() const {
    return params_.top_logprobs != 0 || (forced_ < 0 && (is_changed() || params_.temperature != 0));
  }

  __device__ static std::uint64_t larger(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }
  __device__ static RowLook both(const RowLook& a, const RowLook& b) {
    RowLook look;
    look.max = fmaxf(a.max, b.max);
    look.best = larger(a.best, b.best);
    // +inf - +inf is no number, and the sum of such a row is none either.
    if (look.max > -INFINITY)
      look.sum = a.sum * expf(a.max - look.max) + b.sum * expf(b.max - look.max);
    return look;
  }
  __device__ static RowLook over_warp(RowLook look) {
#pragma unroll
    for (unsigned step = 16; step != 0; step /= 2)
      look = both(look, {__shfl_xor_sync(~0u, look.max, step), __shfl_xor_sync(~0u, look.sum, step),
                         __shfl_xor_sync(~0u, look.best, step)});
    return look;
  }
  /// Of all threads of all blocks, the same for all.
  __device__ RowLook over_row(RowLook look) {
    RowLook* const own = shared().looks[next_turn()];
    look = over_warp(look);
    if (lane() == 0) own[warp()] = look;
    meet();
    // Each lane reads one block's warps, four lanes a block.
    static_assert(kWarps * kBlocks % 32 == 0);
    constexpr unsigned kEach = kWarps * kBlocks / 32;
    const RowLook* const there = of_block(own, lane() * kEach / kWarps) + lane() * kEach % kWarps;
    RowLook all = there[0];
#pragma unroll
    for (unsigned i = 1; i < kEach; ++i) all = both(all, there[i]);
    return over_warp(all);
  }
  __device__ unsigned next_turn() { return turn_ ^= 1; }

  // --- logits after bias and penalties -----------------------------------------------------------

  /// Changes this block's values and returns the best (logit, lowest token) of the row.
  __device__ std::uint64_t change_logits() {
    __syncthreads();
    // A token may have several biases, which add up in their order.
    if (threadIdx.x == 0)
      for (std::uint32_t at = 0; at < params_.biases; ++at) {
        const auto token = static_cast<std::uint32_t>(params_.bias_token[at]);
        const std::uint32_t place = token - block_first_;
        if (token < vocabulary_ && token >= block_first_ &&
            place < SampleShape::share_of(vocabulary_))
          values()[place] += params_.bias[at];
      }
    __syncthreads();
    RowLook look;
    change_each([&](std::uint32_t token, float value) {
      const float logit =
          number(penalized(value, seen_ ? seen_[token] : std::uint16_t{0}, params_));
      look.best = larger(look.best, key_of(logit, token));
      return logit;
    });
    return over_row(look).best;
  }

  // --- cuts ------------------------------------------------------------------------------------

  /// Adds up over the row what each warp has. Returns the sum of all; `before` becomes the sum of
  /// the warps that have lower tokens.
  __device__ std::uint64_t sum_in_order(std::uint64_t mine, std::uint64_t& before) {
    std::uint64_t* const own = shared().sums[next_turn()];
    if (lane() == 0) own[warp()] = mine;
    meet();
    constexpr unsigned kEach = kWarps * kBlocks / 32;
    const std::uint64_t* const there =
        of_block(own, lane() * kEach / kWarps) + lane() * kEach % kWarps;
    const unsigned self = rank_ * kWarps + warp();
    std::uint64_t total = 0;
    std::uint64_t earlier = 0;
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) {
      const std::uint64_t one = there[i];
      total += one;
      if (lane() * kEach + i < self) earlier += one;
    }
    before = sum_of_warp(earlier);
    return sum_of_warp(total);
  }
  __device__ static std::uint64_t sum_of_warp(std::uint64_t value) {
#pragma unroll
    for (unsigned step = 16; step != 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
  }
  /// The token of this warp at `point`, its weights laid end to end by id. All lanes get it.
  template <class WeightOf>
  __device__ std::uint32_t token_in_warp(std::uint64_t point, WeightOf weight_of) const {
    const float* const mine = values();
    for (std::uint32_t from = first_; from < last_; from += 32) {
      const std::uint32_t token = from + lane();
      const std::uint64_t weight =
          token < last_ ? weight_of(token, mine[token - block_first_]) : std::uint64_t{0};
      std::uint64_t until = weight;
#pragma unroll
      for (unsigned step = 1; step < 32; step *= 2) {
        const std::uint64_t other = __shfl_up_sync(~0u, until, step);
        if (lane() >= step) until += other;
      }
      const unsigned reached = __ballot_sync(~0u, until > point);
      if (reached != 0) return from + static_cast<unsigned>(__ffs(static_cast<int>(reached))) - 1;
      point -= __shfl_sync(~0u, until, 31);
    }
    return first_;
  }
  /// The same over the row, told to all blocks. REQUIRES: the point is below the sum of all
  /// weights.
  template <class WeightOf>
  __device__ std::uint32_t token_at(std::uint64_t point, WeightOf weight_of) {
    std::uint64_t mine = 0;
    for_each([&](std::uint32_t token, float value) { mine += weight_of(token, value); });
    mine = sum_of_warp(mine);
    std::uint64_t before = 0;
    (void)sum_in_order(mine, before);
    std::uint64_t* const told = shared().sums[next_turn()];
    if (lane() == 0) told[warp()] = ~0ull;
    if (point >= before && point - before < mine) {
      const std::uint32_t token = token_in_warp(point - before, weight_of);
      if (lane() == 0) told[warp()] = token;
    }
    meet();
    constexpr unsigned kEach = kWarps * kBlocks / 32;
    const std::uint64_t* const there =
        of_block(told, lane() * kEach / kWarps) + lane() * kEach % kWarps;
    std::uint32_t token = ~0u;
#pragma unroll
    for (unsigned i = 0; i < kEach; ++i) token = min(token, static_cast<std::uint32_t>(there[i]));
    return __reduce_min_sync(~0u, token);
  }

  // Lanes that meet in one bin add up before they go there: equal logits would make all threads
  // wait for one word.

  __device__ static void count_in_bin(std::uint32_t* bins, unsigned bin) {
    const unsigned peers = __match_any_sync(__activemask(), bin);
    if (lane() == static_cast<unsigned>(__ffs(static_cast<int>(peers))) - 1)
      atomicAdd(&bins[bin], static_cast<unsigned>(__popc(peers)));
  }
  __device__ static void add_to_bin(std::uint32_t (*bins)[kBins], unsigned bin,
                                    std::uint64_t weight) {
    constexpr std::uint32_t kMask = (1u << kLimbBits) - 1;
    const unsigned active = __activemask();
    int is_same = 0;
    (void)__match_all_sync(active, bin, &is_same);
#pragma unroll
    for (unsigned limb = 0; limb < kLimbs; ++limb) {
      auto part = static_cast<std::uint32_t>(weight >> limb * kLimbBits) & kMask;
      if (is_same) {
        part = __reduce_add_sync(active, part);
        if (lane() != static_cast<unsigned>(__ffs(static_cast<int>(active))) - 1) continue;
      }
      if (part != 0) atomicAdd(&bins[limb][bin], part);
    }
  }

  /// The fewest tokens, highest key first, whose weights reach what `needed_of(sum of all)` says;
  /// of equal keys the lowest ids. Tokens of one key have one weight: their mass, or one where they
  /// are counted. Those without mass are not there. Keys have `bits` bits. REQUIRES: all weights
  /// together reach it.
  template <bool kCounts, class KeyOf, class NeededOf>
  __device__ Cut cut_to(unsigned bits, KeyOf key_of_value, NeededOf needed_of) {
    constexpr unsigned kOwnLimbs = kCounts ? 1 : kLimbs;
    const auto weight_of = [](float value) {
      return kCounts ? std::uint64_t{1} : __float2ull_rn(value);
    };
    std::uint32_t prefix = 0;
    std::uint64_t needed = 0;
    bool is_first = true;
    for (unsigned left = bits; left != 0;) {
      const unsigned width = min(left, kBinBits);
      const unsigned shift = left - width;
      std::uint32_t(*const bins)[kBins] = shared().bins[next_turn()];
      for (unsigned at = threadIdx.x; at < kOwnLimbs * kBins; at += kThreads) bins[0][at] = 0;
      __syncthreads();
      for_each([&](std::uint32_t, float value) {
        const std::uint32_t key = key_of_value(value);
        if (!is_first && key >> left != prefix) return;
        const unsigned bin = key >> shift & ((1u << width) - 1);
        if constexpr (kCounts)
          count_in_bin(bins[0], bin);
        else if (value != 0)
          add_to_bin(bins, bin, weight_of(value));
      });
      meet();
      const unsigned bin = find_bin<kOwnLimbs>(bins, needed, is_first, needed_of);
      needed = shared().needed;
      prefix = prefix << width | bin;
      left = shift;
      is_first = false;
    }
    const auto of_last = [&](std::uint32_t, float value) {
      return key_of_value(value) == prefix ? weight_of(value) : std::uint64_t{0};
    };
    return {prefix, token_at(needed - 1, of_last)};
  }

  /// In which bin, from the highest, the sums reach `needed`; leaves what that bin must give in
  /// shared().needed. Each thread has two neighbouring bins.
  template <unsigned kOwnLimbs, class NeededOf>
  __device__ unsigned find_bin(std::uint32_t (*bins)[kBins], std::uint64_t needed, bool is_first,
                               NeededOf needed_of) {
    static_assert(kBins == 2 * kThreads);
    std::uint64_t low = 0;
    std::uint64_t high = 0;
#pragma unroll
    for (unsigned limb = 0; limb < kOwnLimbs; ++limb) {
#pragma unroll
      for (unsigned rank = 0; rank < kBlocks; ++rank) {
        const uint2 two =
            *reinterpret_cast<const uint2*>(of_block(&bins[limb][2 * threadIdx.x], rank));
        low += static_cast<std::uint64_t>(two.x) << limb * kLimbBits;
        high += static_cast<std::uint64_t>(two.y) << limb * kLimbBits;
      }
    }
    // What the bins of this thread and of all above it have, first within the warp.
    std::uint64_t from_here = low + high;
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
      const std::uint64_t other = __shfl_down_sync(~0u, from_here, step);
      if (lane() + step < 32) from_here += other;
    }
    __syncthreads();  // the needed of the pass before was read
    if (lane() == 0) shared().warp_sums[warp()] = from_here;
    __syncthreads();
    std::uint64_t total = 0;
    std::uint64_t above = 0;
#pragma unroll
    for (unsigned other = 0; other < kWarps; ++other) {
      total += shared().warp_sums[other];
      if (other > warp()) above += shared().warp_sums[other];
    }
    if (is_first) needed = needed_of(total);
    const std::uint64_t above_high = from_here + above - low - high;
    const std::uint64_t above_low = above_high + high;
    if (above_high < needed && above_low >= needed) {
      shared().found = 2 * threadIdx.x + 1;
      shared().needed = needed - above_high;
    } else if (above_low < needed && above_low + low >= needed) {
      shared().found = 2 * threadIdx.x;
      shared().needed = needed - above_low;
    }
    __syncthreads();
    return shared().found;
  }

  // --- draws -----------------------------------------------------------------------------------

  /// REQUIRES: values are logits; `best` is the highest of the row.
  __device__ Choice draw(std::uint64_t best, std::int32_t position) {
    const float max = from_ordered(static_cast<std::uint32_t>(best >> 32));
    if (!(max > -INFINITY)) return {0, rank_ == 0 && threadIdx.x == 0};
    Cut top_k;
    const bool has_top_k =
        params_.top_k > 0 && static_cast<std::uint32_t>(params_.top_k) < vocabulary_;
    if (has_top_k)
      top_k = cut_to<true>(
          32, [](float value) { return ordered(value); },
          [&](std::uint64_t) { return static_cast<std::uint64_t>(params_.top_k); });
    // From here on values are masses. A mass has at most 24 significant bits: a float holds it.
    const float temperature = params_.temperature;
    change_each([&](std::uint32_t token, float logit) {
      if (has_top_k && !top_k.keeps(ordered(logit), token)) return 0.0f;
      return __ull2float_rn(mass_of(logit, max, temperature));
    });
    Cut top_p;
    if (params_.top_p < 1)
      top_p = cut_to<false>(
          kMassKeyBits, [](float value) { return mass_key(value); },
          [&](std::uint64_t total) { return mass_of_top_p(total, params_.top_p); });
    const std::uint64_t least = mass_of_min_p(params_.min_p);
    const auto mass_left = [&](std::uint32_t token, float value) {
      const std::uint64_t mine = __float2ull_rn(value);
      return mine != 0 && mine >= least && top_p.keeps(mass_key(value), token) ? mine
                                                                               : std::uint64_t{0};
    };
    std::uint64_t mine = 0;
    for_each([&](std::uint32_t token, float value) { mine += mass_left(token, value); });
    mine = sum_of_warp(mine);
    std::uint64_t before = 0;
    const std::uint64_t total = sum_in_order(mine, before);
    const std::uint64_t point = point_in(total, params_, position);
    if (point < before || point - before >= mine) return {0, false};
    return {token_in_warp(point - before, mass_left), lane() == 0};
  }
  /// The bits of a mass as a float, from those of 1: 41 exponents and 23 bits below them.
  static constexpr unsigned kMassKeyBits = 29;
  __device__ static std::uint32_t mass_key(float mass) {
    const std::uint32_t bits = __float_as_uint(mass);
    constexpr std::uint32_t kOfOne = 127u << 23;
    return bits < kOfOne ? 0 : bits - kOfOne;
  }

  // --- the most probable tokens ------------------------------------------------------------------

  /// REQUIRES: values are the raw logits; count is at most kMaxTop and the vocabulary.
  __device__ void report_tops(std::uint32_t count, double log_sum, Sampled& out) {
    if (threadIdx.x == 0) shared().top_count = 0;
    const Cut cut = cut_to<true>(
        32, [](float value) { return ordered(value); },
        [&](std::uint64_t) { return std::uint64_t{count}; });
    for_each([&](std::uint32_t token, float value) {
      if (cut.keeps(ordered(value), token))
        shared().tops[atomicAdd(&shared().top_count, 1u)] = key_of(value, token);
    });
    meet();
    if (rank_ == 0 && warp() == 0) {
      // A lane for each, wherever it lies; its place is how many are higher.
      unsigned place = lane();
      std::uint64_t mine = 0;
      for (unsigned rank = 0; rank < kBlocks; ++rank) {
        const unsigned there = *of_block(&shared().top_count, rank);
        if (place < there) mine = *of_block(shared().tops + place, rank);
        place = place < there ? ~0u : place - (place == ~0u ? 0 : there);
      }
      unsigned higher = 0;
      for (unsigned other = 0; other < count; ++other)
        higher += __shfl_sync(~0u, mine, other) > mine;
      if (lane() < count) {
        const std::uint32_t token = ~static_cast<std::uint32_t>(mine);
        out.top_token[higher] = static_cast<std::int32_t>(token);
        out.top_logprob[higher] = static_cast<float>(raw_[token] - log_sum);
      }
    }
  }

  std::uint32_t vocabulary_;
  std::uint32_t slot_;
  const SamplingParams& params_;
  std::int32_t forced_;
  const float* raw_;
  std::uint16_t* seen_;
  unsigned rank_;  // of the block in its cluster
  std::uint32_t block_first_;
  std::uint32_t first_;  // of this warp's tokens
  std::uint32_t last_;
  unsigned turn_ = 0;
};

}  // namespace attacca::kernels
