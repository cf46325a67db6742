// sample_row.cuh: the CUDA body of sample.hpp. Eight blocks of a cluster share a row: each keeps
// its part of the logits in shared memory, so that every look at the row after the first is a look
// at shared memory. They meet at cluster barriers and read each other's sums through distributed
// shared memory. A cut (top-k, top-p) is found by radix select: histograms over eleven bits of the
// key at a time, from the highest.
#pragma once

#include <cstdint>

#include "kernels/sample.hpp"
#include "kernels/sampling.hpp"

namespace attacca::kernels {

/// The maximum, the sum and the best token of one thread's tokens, later of the whole row.
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
        params_(args.params[args.slots[row]]),
        forced_(is_forced(args, row) ? args.forced[row] : -1),
        raw_(args.logits + static_cast<std::uint64_t>(row) * vocabulary_),
        seen_(has_penalties(params_)
                  ? args.seen.counts + static_cast<std::uint64_t>(args.slots[row]) * vocabulary_
                  : nullptr),
        rank_(blockIdx.x % kBlocks) {
    const std::uint32_t share = SampleShape::share_of(vocabulary_);
    block_first_ = min(vocabulary_, rank_ * share);
    const std::uint32_t block_last = min(vocabulary_, block_first_ + share);
    const std::uint32_t part = (share + kWarps - 1) / kWarps;
    warp_first_ = min(block_last, block_first_ + warp() * part);
    warp_last_ = min(block_last, warp_first_ + part);
    // A lane's tokens are neighbours. An odd number of them keeps lanes out of each other's banks.
    const std::uint32_t each = (part + 31) / 32 | 1;
    first_ = min(warp_last_, warp_first_ + lane() * each);
    last_ = min(warp_last_, first_ + each);
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
    if (choice.is_mine) {
      out.tops = tops;
      out.token = static_cast<std::int32_t>(choice.token);
      out.logprob = static_cast<float>(raw_[choice.token] - log_sum);
      out.ending = ending_of(params_, out.token, position);
      if (seen_) seen_[choice.token] = counted(seen_[choice.token]);
    }
    meet();  // a block may not exit while another reads its shared memory
  }

  /// Of a block, beside its part of the row.
  static constexpr unsigned shared_bytes() { return sizeof(Shared); }

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

  // --- keys and masses -------------------------------------------------------------------------

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

  // A mass has at most 24 significant bits: a float holds it. So masses lie where logits lay, and
  // the bits of a float order them.

  /// mass_of(logit, max, temperature) as a float, without 64-bit conversions, which are slow.
  __device__ static float float_mass(float logit, float max, float temperature) {
    if (logit == max) return static_cast<float>(kFullMass);
    const float distance = (max - logit) / temperature;
    if (!(distance < MassTerms::kFarthest)) return 0;
    // Added towards zero, 2^23 leaves the whole part in the lowest bits.
    constexpr float kShift = 8388608.0f;
    const float shifted = __fadd_rz(distance * MassTerms::kLog2E, kShift);
    const std::uint32_t octaves = __float_as_uint(shifted) - __float_as_uint(kShift);
    const float x = fmaf(distance, MassTerms::kLog2E, -(shifted - kShift));
    float power = fmaf(MassTerms::kPower5, x, MassTerms::kPower4);
    power = fmaf(power, x, MassTerms::kPower3);
    power = fmaf(power, x, MassTerms::kPower2);
    power = fmaf(power, x, MassTerms::kPower1);
    power = fmaf(power, x, MassTerms::kPower0);
    return truncf(truncf(power) * __uint_as_float((127 + 16 - octaves) << 23));
  }
  /// A mass, or a sum of masses of one exponent, as an integer. `units`: the sum of their 24-bit
  /// significands. REQUIRES: bits below one are zeros.
  __device__ static std::uint64_t scaled_to(std::uint32_t exponent, std::uint64_t units) {
    return exponent >= 23 ? units << (exponent - 23) : units >> (23 - exponent);
  }
  static constexpr std::uint32_t kOne = 127u << 23;  // the bits of 1.0f
  __device__ static std::uint64_t whole(float mass) {
    const std::uint32_t bits = __float_as_uint(mass);
    return bits == 0 ? 0 : scaled_to((bits >> 23) - 127, bits % (1u << 23) + (1u << 23));
  }
  /// The bits of a mass above those of 1: 41 exponents, and 23 bits below them.
  static constexpr unsigned kMassKeyBits = 29;
  __device__ static std::uint32_t mass_key(float mass) { return __float_as_uint(mass) - kOne; }

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
  __device__ static T* of_block(T* own, unsigned rank) {
    std::uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(rank));
    return reinterpret_cast<T*>(there);
  }
  __device__ static unsigned warp() { return threadIdx.x / 32; }
  __device__ static unsigned lane() { return threadIdx.x % 32; }
  static constexpr unsigned kBinBits = 11;
  static constexpr unsigned kBins = 1u << kBinBits;
  static constexpr unsigned kSlice = kBins / kBlocks;  // bins that a block adds up for all

  struct Found {
    unsigned bin;
    std::uint64_t needed;  // of the bin
    std::uint64_t total;   // the bin's
  };
  struct Shared {
    // For each bin a count, and the sum of what its keys have below the bin's bits: its low part
    // and its high part, so that 32 bits hold them.
    std::uint32_t bins[3 * kBins];
    // Of this block's warps.
    std::uint64_t warp_sums[kWarps];
    RowLook warp_looks[kWarps];
    // Read by other blocks, few words at a time: reading each other's shared memory is slow. In
    // turn: what one round leaves to be read, the next does not overwrite, and the one after that
    // starts behind a barrier that all readers have come to.
    std::uint64_t sum[2];
    RowLook look[2];
    std::uint64_t eights[kWarps];  // sums of eight bins of this block's slice
    std::uint64_t totals[kSlice];  // of each bin of it
    std::uint64_t tops[SamplingParams::kMaxTop];
    std::uint32_t top_count;
    std::uint32_t told;  // by another block
    Found found;         // by this block's first warp
  };
  __device__ static Shared& shared() {
    extern __shared__ __align__(16) unsigned char sample_memory[];
    return *reinterpret_cast<Shared*>(sample_memory);
  }
  /// This block's part of the row: logits, later masses. By a token's distance from block_first_.
  __device__ static float* values() { return reinterpret_cast<float*>(&shared() + 1); }
  __device__ unsigned next_turn() { return turn_ ^= 1; }

  /// Calls `take(token, value)` for the tokens of this thread, and stores what it returns.
  template <class Take>
  __device__ void change_each(Take take) {
    float* const mine = values() - block_first_;
    for (std::uint32_t token = first_; token < last_; ++token)
      mine[token] = take(token, mine[token]);
  }
  template <class Take>
  __device__ void for_each(Take take) const {
    const float* const mine = values() - block_first_;
    for (std::uint32_t token = first_; token < last_; ++token) take(token, mine[token]);
  }

  // --- the first look --------------------------------------------------------------------------

  /// Brings the row in, and finds what greedy sampling needs. REQUIRES: logits are written.
  __device__ RowLook look_at_row() {
    constexpr unsigned kAtOnce = 16;
    const bool is_kept = needs_values();
    RowLook look;
    for (std::uint32_t at = warp_first_ + lane(); at < warp_last_; at += 32 * kAtOnce) {
      float raw[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i)
        raw[i] = at + 32 * i < warp_last_ ? __ldcg(raw_ + at + 32 * i) : -INFINITY;
      float highest = -INFINITY;
      std::uint32_t token = at;
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        raw[i] = number(raw[i]);
        if (is_kept && at + 32 * i < warp_last_) values()[at + 32 * i - block_first_] = raw[i];
        if (raw[i] > highest) {
          highest = raw[i];
          token = at + 32 * i;
        }
      }
      look.best = larger(look.best, key_of(highest, token));
      const float max = fmaxf(look.max, highest);
      if (max > -INFINITY) {
        look.sum *= expf(look.max - max);
#pragma unroll
        for (unsigned i = 0; i < kAtOnce; ++i) look.sum += expf(raw[i] - max);
      }
      look.max = max;
    }
    __syncwarp();  // lanes go on with tokens that others brought
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
    // Rounded before they are added: fused, the sum of a and b would not be that of b and a, and
    // threads would disagree.
    if (look.max > -INFINITY)
      look.sum = __fadd_rn(__fmul_rn(a.sum, expf(a.max - look.max)),
                           __fmul_rn(b.sum, expf(b.max - look.max)));
    return look;
  }
  /// Of `kLanes` neighbouring lanes, the same for all of them.
  template <unsigned kLanes>
  __device__ static RowLook over_lanes(RowLook look) {
#pragma unroll
    for (unsigned step = kLanes / 2; step != 0; step /= 2)
      look = both(look, {__shfl_xor_sync(~0u, look.max, step), __shfl_xor_sync(~0u, look.sum, step),
                         __shfl_xor_sync(~0u, look.best, step)});
    return look;
  }
  __device__ static RowLook over_warp(const RowLook& look) { return over_lanes<32>(look); }
  /// Of all threads of all blocks, the same for all.
  __device__ RowLook over_row(RowLook look) {
    RowLook& own = shared().look[next_turn()];
    look = over_warp(look);
    if (lane() == 0) shared().warp_looks[warp()] = look;
    __syncthreads();
    static_assert(kWarps == 32);
    if (warp() == 0) {
      look = over_warp(shared().warp_looks[lane()]);
      if (lane() == 0) own = look;
    }
    meet();
    return over_lanes<kBlocks>(*of_block(&own, lane() % kBlocks));
  }

  // --- logits after bias and penalties -----------------------------------------------------------

  /// Changes this block's values and returns the best (logit, lowest token) of the row.
  __device__ std::uint64_t change_logits() {
    __syncthreads();
    // A token may have several biases, which add up in their order.
    if (threadIdx.x == 0)
      for (std::uint32_t at = 0; at < params_.biases; ++at) {
        const auto token = static_cast<std::uint32_t>(params_.bias_token[at]);
        if (token < vocabulary_ && token / SampleShape::share_of(vocabulary_) == rank_)
          values()[token - block_first_] += params_.bias[at];
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

  // --- sums in the order of tokens ---------------------------------------------------------------

  __device__ static std::uint64_t sum_of_warp(std::uint64_t value) {
#pragma unroll
    for (unsigned step = 16; step != 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
  }
  /// What the lanes up to this one have.
  __device__ static std::uint64_t sum_up_to_lane(std::uint64_t value) {
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
      const std::uint64_t other = __shfl_up_sync(~0u, value, step);
      if (lane() >= step) value += other;
    }
    return value;
  }
  /// Lays the weights of all tokens end to end by id. The thread that has the token at
  /// `point_of(sum of all)` says so.
  template <class WeightOf, class PointOf>
  __device__ Choice token_at(WeightOf weight_of, PointOf point_of) {
    std::uint64_t mine = 0;
    for_each([&](std::uint32_t token, float value) { mine += weight_of(token, value); });
    const std::uint64_t up_to_here = sum_up_to_lane(mine);
    std::uint64_t& own = shared().sum[next_turn()];
    if (lane() == 31) shared().warp_sums[warp()] = up_to_here;
    __syncthreads();
    const std::uint64_t of_warp = shared().warp_sums[lane()];
    const std::uint64_t of_block_here = sum_of_warp(of_warp);
    if (threadIdx.x == 0) own = of_block_here;
    meet();
    const std::uint64_t one = lane() < kBlocks ? *of_block(&own, lane()) : 0;
    const std::uint64_t before =
        sum_of_warp((lane() < rank_ ? one : 0) + (lane() < warp() ? of_warp : 0)) + up_to_here -
        mine;
    std::uint64_t point = point_of(sum_of_warp(one));
    Choice choice{0, false};
    if (point < before || point - before >= mine) return choice;
    point -= before;
    for_each([&](std::uint32_t token, float value) {
      const std::uint64_t weight = weight_of(token, value);
      if (!choice.is_mine && point < weight) choice = {token, true};
      if (!choice.is_mine) point -= weight;
    });
    return choice;
  }

  // --- cuts ------------------------------------------------------------------------------------

  __device__ static std::uint32_t* counts() { return shared().bins; }
  __device__ static std::uint32_t* lows() { return shared().bins + kBins; }
  __device__ static std::uint32_t* highs() { return shared().bins + 2 * kBins; }

  /// `half`: the bits of the low part.
  __device__ static void add_to_bin(unsigned bin, std::uint32_t below, unsigned half) {
    atomicAdd(&counts()[bin], 1u);
    std::uint32_t low = below & ((1u << half) - 1);
    std::uint32_t high = below >> half;
    // Where all meet in one bin they add up first: equal logits would make them wait for one word.
    const unsigned active = __activemask();
    int is_same = 0;
    (void)__match_all_sync(active, bin, &is_same);
    if (is_same) {
      low = __reduce_add_sync(active, low);
      high = __reduce_add_sync(active, high);
      if (lane() != static_cast<unsigned>(__ffs(static_cast<int>(active))) - 1) return;
    }
    if (low != 0) atomicAdd(&lows()[bin], low);
    if (high != 0) atomicAdd(&highs()[bin], high);
  }

  /// The fewest tokens, highest key first, whose weights reach what `needed_of(sum of all)` says;
  /// of equal keys the lowest ids. Keys have `bits` bits. A token weighs its mass, or one where
  /// tokens are counted; those without mass are not there. REQUIRES: all together reach it.
  template <bool kCounts, class KeyOf, class NeededOf>
  __device__ Cut cut_to(unsigned bits, KeyOf key_of_value, NeededOf needed_of) {
    std::uint32_t prefix = 0;
    Found found{};
    for (unsigned left = bits; left != 0;) {
      const unsigned width = min(left, kBinBits);
      const unsigned shift = left - width;
      // A sum of 2^14 numbers of 18 bits fits into a word.
      const unsigned half = SampleShape::share_of(vocabulary_) <= 1u << 14 ? shift : shift / 2;
      for (unsigned at = threadIdx.x; at < (kCounts ? 1 : 3) * kBins; at += kThreads)
        shared().bins[at] = 0;
      __syncthreads();
      for_each([&](std::uint32_t, float value) {
        if (!kCounts && value == 0) return;
        const std::uint32_t key = key_of_value(value);
        if (left != bits && key >> left != prefix) return;
        const unsigned bin = key >> shift & ((1u << width) - 1);
        if constexpr (kCounts)
          atomicAdd(&counts()[bin], 1u);
        else
          add_to_bin(bin, key & ((1u << shift) - 1), half);
      });
      meet();
      const auto weight_of_bin = [&](unsigned bin, std::uint64_t count, std::uint64_t below) {
        if (kCounts) return count;
        const std::uint32_t key = (prefix << width | bin) << shift;
        return scaled_to(key >> 23, count * (key % (1u << 23) + (1u << 23)) + below);
      };
      found = find_bin<kCounts>(weight_of_bin, half, [&](std::uint64_t total) {
        return left == bits ? needed_of(total) : found.needed;
      });
      prefix = prefix << width | found.bin;
      left = shift;
    }
    const std::uint64_t weight = kCounts ? 1 : whole(__uint_as_float(prefix + kOne));
    // Mostly all tokens of the last key stay.
    if (found.needed + weight > found.total) return {prefix, ~0u};
    const std::uint64_t place = (found.needed - 1) / weight;
    const Choice last = token_at(
        [&](std::uint32_t, float value) {
          const bool is_there = kCounts || value != 0;
          return std::uint64_t{is_there && key_of_value(value) == prefix};
        },
        [&](std::uint64_t) { return place; });
    if (last.is_mine)
      for (unsigned rank = 0; rank < kBlocks; ++rank) *of_block(&shared().told, rank) = last.token;
    meet();
    return {prefix, shared().told};
  }

  /// In which bin, from the highest, the sums reach what is needed. Each block adds up a slice of
  /// the bins for all; then the first warp of each looks for the bin. REQUIRES: a barrier of the
  /// cluster since bins were added to.
  template <bool kCounts, class WeightOfBin, class NeededOf>
  __device__ Found find_bin(WeightOfBin weight_of_bin, unsigned half, NeededOf needed_of) {
    static_assert(kThreads == 4 * kSlice && kBlocks == 8);
    const unsigned slot = threadIdx.x / 4;
    const unsigned bin = rank_ * kSlice + slot;
    std::uint64_t count = 0;
    std::uint64_t below = 0;
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned rank = threadIdx.x % 4 * 2 + i;
      count += *of_block(counts() + bin, rank);
      if constexpr (!kCounts) {
        below += *of_block(lows() + bin, rank);
        below += static_cast<std::uint64_t>(*of_block(highs() + bin, rank)) << half;
      }
    }
#pragma unroll
    for (unsigned step = 1; step < 4; step *= 2) {
      count += __shfl_xor_sync(~0u, count, step);
      below += __shfl_xor_sync(~0u, below, step);
    }
    const std::uint64_t weight = count == 0 ? 0 : weight_of_bin(bin, count, below);
    if (threadIdx.x % 4 == 0) shared().totals[slot] = weight;
    const std::uint64_t of_eight = sum_of_warp(threadIdx.x % 4 == 0 ? weight : 0);
    if (lane() == 0) shared().eights[warp()] = of_eight;
    __syncthreads();
    std::uint64_t& own = shared().sum[next_turn()];
    if (warp() == 0) {
      const std::uint64_t of_slice = sum_of_warp(shared().eights[lane()]);
      if (lane() == 0) own = of_slice;
    }
    meet();
    if (warp() == 0) {
      // The slice, the eight bins of it, the bin.
      const std::uint64_t slice = lane() < kBlocks ? *of_block(&own, lane()) : 0;
      std::uint64_t needed = needed_of(sum_of_warp(slice));
      const unsigned rank = reach(slice, needed);
      const unsigned eight = reach(*of_block(shared().eights + lane(), rank), needed);
      const std::uint64_t total =
          lane() < 8 ? *of_block(shared().totals + eight * 8 + lane(), rank) : 0;
      const unsigned at = reach(total, needed);
      const std::uint64_t of_bin = __shfl_sync(~0u, total, static_cast<int>(at));
      if (lane() == 0) shared().found = {rank * kSlice + eight * 8 + at, needed, of_bin};
    }
    __syncthreads();
    return shared().found;
  }
  /// The lane in which the sum from lane 31 down reaches `needed`, which becomes what is needed of
  /// that lane. All lanes of a warp call. REQUIRES: all together reach it.
  __device__ static unsigned reach(std::uint64_t mine, std::uint64_t& needed) {
    std::uint64_t from_here = mine;
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
      const std::uint64_t other = __shfl_down_sync(~0u, from_here, step);
      if (lane() + step < 32) from_here += other;
    }
    const unsigned reached = __ballot_sync(~0u, from_here >= needed);
    const unsigned who = 31 - static_cast<unsigned>(__clz(static_cast<int>(reached)));
    needed -= __shfl_sync(~0u, from_here - mine, static_cast<int>(who));
    return who;
  }

  // --- draws -----------------------------------------------------------------------------------

  __device__ Cut cut_to_count(std::uint32_t count) {
    return cut_to<true>(
        32, [](float value) { return ordered(value); },
        [&](std::uint64_t) { return std::uint64_t{count}; });
  }

  /// REQUIRES: values are logits; `best` is the highest of the row.
  __device__ Choice draw(std::uint64_t best, std::int32_t position) {
    const float max = from_ordered(static_cast<std::uint32_t>(best >> 32));
    if (!(max > -INFINITY)) return {0, rank_ == 0 && threadIdx.x == 0};
    Cut top_k;
    const auto most = static_cast<std::uint32_t>(params_.top_k);
    const bool has_top_k = params_.top_k > 0 && most < vocabulary_;
    if (has_top_k) top_k = cut_to_count(most);
    const float temperature = params_.temperature;
    change_each([&](std::uint32_t token, float logit) {
      if (has_top_k && !top_k.keeps(ordered(logit), token)) return 0.0f;
      return float_mass(logit, max, temperature);
    });
    Cut top_p;
    if (params_.top_p < 1)
      top_p = cut_to<false>(
          kMassKeyBits, [](float value) { return mass_key(value); },
          [&](std::uint64_t total) { return mass_of_top_p(total, params_.top_p); });
    const std::uint64_t least = mass_of_min_p(params_.min_p);
    return token_at(
        [&](std::uint32_t token, float value) {
          const std::uint64_t mass = whole(value);
          const bool stays = mass != 0 && mass >= least && top_p.keeps(mass_key(value), token);
          return stays ? mass : std::uint64_t{0};
        },
        [&](std::uint64_t total) { return point_in(total, params_, position); });
  }

  // --- the most probable tokens ------------------------------------------------------------------

  /// REQUIRES: values are the raw logits; count is at most kMaxTop and the vocabulary.
  __device__ void report_tops(std::uint32_t count, double log_sum, Sampled& out) {
    if (threadIdx.x == 0) shared().top_count = 0;
    const Cut cut = cut_to_count(count);
    for_each([&](std::uint32_t token, float value) {
      if (cut.keeps(ordered(value), token))
        shared().tops[atomicAdd(&shared().top_count, 1u)] = key_of(value, token);
    });
    meet();
    if (rank_ != 0 || warp() != 0) return;
    // A lane for each, wherever it lies; its place is how many are higher.
    unsigned place = lane();
    std::uint64_t mine = 0;
    for (unsigned rank = 0; rank < kBlocks; ++rank) {
      const unsigned there = *of_block(&shared().top_count, rank);
      if (place < there) mine = *of_block(shared().tops + place, rank);
      place = place < there || place == ~0u ? ~0u : place - there;
    }
    unsigned higher = 0;
    for (unsigned other = 0; other < count; ++other)
      higher += __shfl_sync(~0u, mine, static_cast<int>(other)) > mine;
    if (lane() >= count) return;
    const std::uint32_t token = ~static_cast<std::uint32_t>(mine);
    out.top_token[higher] = static_cast<std::int32_t>(token);
    out.top_logprob[higher] = static_cast<float>(raw_[token] - log_sum);
  }

  std::uint32_t vocabulary_;
  const SamplingParams& params_;
  std::int32_t forced_;
  const float* raw_;
  std::uint16_t* seen_;
  unsigned rank_;  // of the block in its cluster
  std::uint32_t block_first_;
  std::uint32_t warp_first_;
  std::uint32_t warp_last_;
  std::uint32_t first_;  // of this thread's tokens
  std::uint32_t last_;
  unsigned turn_ = 0;
};

static_assert(RowSampler::shared_bytes() <= SampleShape::kFixedBytes);

}  // namespace attacca::kernels
