// sample_row.cuh: the CUDA body of sample.hpp: one cluster samples one row. A few highest tokens
// (top-k, log-probabilities) are those above a bound from the maxima of 256 groups, sorted by one
// block. More are found by radix select. Draws are from masses laid end to end by token id. The
// passes over the row are in shared_row.cuh.
#pragma once

#include <cstdint>

#include "kernels/sample/shared_row.cuh"

namespace attacca::kernels {

/// All threads of the cluster call all functions together.
template <unsigned kBlocks>
class RowSampler {
  using Row = SharedRow<kBlocks>;
  using Values = typename Row::Values;
  static constexpr unsigned kThreads = Row::kThreads;
  static constexpr unsigned kRuns = Row::kRuns;
  static constexpr unsigned kMaxListed = kThreads;
  static constexpr unsigned kMaxHighest = Row::kGroups;
  static constexpr unsigned kBinBits = 11;
  static constexpr unsigned kBins = 1u << kBinBits;
  static constexpr float kFarthest = MassTerms::kFarthest + 0.5f;  // mass 0 at temperature 1

  struct Bin {
    std::uint32_t bin;
    std::uint32_t needed;  // still needed from it
    std::uint32_t found;   // counted in it
  };
  struct Drawn {
    unsigned at;  // index in the list
    bool stays;
  };
  struct Shared {
    typename Row::Shared row;
    // Other blocks read these through DSMEM.
    std::uint64_t listed[kMaxListed];  // keys of tokens above a bound
    std::uint32_t listed_count;
    std::uint32_t bins[kBins];
    Bin bin;
    // Only the first block uses these.
    std::uint64_t all_listed[kMaxListed];
    std::uint64_t highest[kMaxHighest];  // sorted keys
    std::uint64_t masses[kMaxHighest];   // of `highest`
    Drawn drawn;
  };
  __device__ static Shared& shared() {
    extern __shared__ __align__(16) unsigned char sample_memory[];
    return *reinterpret_cast<Shared*>(sample_memory);
  }

 public:
  static constexpr unsigned shared_bytes(std::uint32_t vocabulary) {
    return static_cast<unsigned>(sizeof(Shared)) + Row::bytes_for(vocabulary);
  }

  __device__ RowSampler(const SampleArgs& args, std::uint32_t row)
      : row_(args, row, shared().row, &shared() + 1),
        params_(row_.params),
        forced_(is_forced(args, row) ? args.forced[row] : -1),
        position_(args.positions[row]) {}

  __device__ void sample(const SampleArgs& args, std::uint32_t row) {
    sample(args, row, [](std::uint32_t place) { return place; });
  }
  /// `token_at`: the token that stands at a place in the row. REQUIRES: it is the place, or the
  /// row's parameters need few logits (see highest.hpp).
  template <class TokenAt>
  __device__ void sample(const SampleArgs& args, std::uint32_t row, TokenAt token_at) {
    Sampled& out = args.out[row];
    const bool wants_logprobs = params_.wants_logprob != 0 || params_.top_logprobs != 0;
    // Without log-probabilities nobody asks for the model's logits again: the first pass over the
    // row stores what bias, penalties and mask make of them, and the others need not.
    const bool stores = row_.is_changed() && !wants_logprobs && forced_ < 0;
    const auto scan = stores
                          ? scan_and_store()
                          : row_.template scan<false>(params_.temperature != 0 || wants_logprobs);
    const std::uint32_t tops = scan.is_finite ? min(params_.top_logprobs, row_.vocabulary) : 0;
    const bool wants_sum = scan.is_finite && wants_logprobs;
    const double log_sum = wants_sum ? log_of_sum(TokenKey::logit(scan.best)) : 0;
    if (tops != 0) report_tops(tops, log_sum, out);
    std::uint32_t token = TokenKey::token(scan.best);
    if (forced_ >= 0)
      token = static_cast<std::uint32_t>(forced_);
    else if (scan.is_finite)
      token = token_at(row_.is_changed() && !stores ? choose_changed() : choose<false>(scan.best));
    if (row_.rank == 0 && threadIdx.x == 0) {
      out.tops = tops;
      out.token = static_cast<std::int32_t>(token);
      out.logprob = wants_sum ? static_cast<float>(row_.logits[token] - log_sum) : 0;
      out.ending = scan.is_finite ? ending_of(params_, row_.tokens.stop, out.token, position_)
                                  : Ending::not_finite;
      std::uint16_t* const marks = row_.tokens.marks;
      if (marks) marks[token] = counted(marks[token]);
      // The other blocks have read the mask: they took part in the choice.
      out.mask = follow_mask(args, static_cast<std::uint32_t>(args.slots[row]), out.token);
    }
    Row::sync();  // a block may not exit while another reads its shared memory
  }

  /// Writes the `count` highest logits and their tokens, by token; NaN if a logit is not finite.
  /// `first_token`: is added to the tokens. REQUIRES: count <= kMaxHighest and the vocabulary.
  __device__ void find_highest(unsigned count, float* logits, std::int32_t* tokens,
                               std::int32_t first_token) {
    const auto scan = row_.template scan<false>(true);
    if (scan.is_finite && list_highest<false>(count) == 0)
      list_cut(cut_to_count<false>(count), count);
    if (row_.rank == 0 && threadIdx.x < count) {
      unsigned at = threadIdx.x;  // its place by token
      std::uint64_t key = 0;
      if (scan.is_finite) {
        key = shared().highest[threadIdx.x];
        at = 0;
        for (unsigned other = 0; other < count; ++other)
          at += TokenKey::token(shared().highest[other]) < TokenKey::token(key);
      }
      logits[at] = scan.is_finite ? TokenKey::logit(key) : __int_as_float(0x7fffffff);
      tokens[at] =
          first_token + (scan.is_finite ? static_cast<std::int32_t>(TokenKey::token(key)) : 0);
    }
    Row::sync();  // a block may not exit while another reads its shared memory
  }

 private:
  __device__ static unsigned lane() { return Row::lane(); }
  template <class T>
  __device__ static T* map_shared_rank(T* own, unsigned rank) {
    return Row::map_shared_rank(own, rank);
  }

  /// log(sum of exp(logit)) of the model's logits.
  __device__ double log_of_sum(float max) {
    const auto weigh = [&](float value, std::uint32_t, float&) {
      return FloatMass::of(Row::number(value), max, 1);
    };
    const std::uint64_t total = row_.template sum_weights<false>(max - kFarthest, weigh).weights;
    return max + log(static_cast<double>(total) * 0x1p-40);
  }

  // --- few tokens --------------------------------------------------------------------------------

  /// Lists the first `count` tokens in the order of comes_before: their sorted keys go to
  /// shared().highest of the first block. Returns how many there are: fewer if the others are minus
  /// infinity, and 0 if so many tokens reach the bound that the list cannot hold them.
  template <bool kChanged>
  __device__ unsigned list_highest(unsigned count) {
    const float bound = row_.bound_of(count);
    Row::sync();  // others may still read the previous list
    if (threadIdx.x == 0) shared().listed_count = 0;
    __syncthreads();
    row_.template for_each_chunk_from<kChanged>(
        bound, [&](std::uint32_t, std::uint32_t token, const Values& values, const Values&) {
#pragma unroll
          for (unsigned run = 0; run < kRuns; ++run) {
            const float value = Row::number(values[run]);
            if (value < bound || value == -INFINITY) continue;
            const unsigned at = atomicAdd(&shared().listed_count, 1u);
            if (at < kMaxListed) shared().listed[at] = TokenKey::of(value, token + 32 * run);
          }
        });
    Row::sync();
    unsigned all = 0;
#pragma unroll
    for (unsigned rank = 0; rank < kBlocks; ++rank)
      all += *map_shared_rank(&shared().listed_count, rank);
    if (all > kMaxListed) return 0;
    if (row_.rank == 0) {
      unsigned first = 0;  // index of a block's first key in all_listed
#pragma unroll
      for (unsigned rank = 0; rank < kBlocks; ++rank) {
        const unsigned theirs = *map_shared_rank(&shared().listed_count, rank);
        if (threadIdx.x >= first && threadIdx.x - first < theirs)
          shared().all_listed[threadIdx.x] =
              *map_shared_rank(&shared().listed[threadIdx.x - first], rank);
        first += theirs;
      }
      __syncthreads();
      rank_list(all, count);
    }
    return min(all, count);
  }
  /// The first block sorts the first `count` of the `all` listed keys.
  __device__ static void rank_list(unsigned all, unsigned count) {
    if (threadIdx.x < all) {
      const std::uint64_t mine = shared().all_listed[threadIdx.x];
      unsigned before = 0;
      for (unsigned other = 0; other < all; ++other) before += shared().all_listed[other] > mine;
      if (before < count) shared().highest[before] = mine;
    }
    __syncthreads();
  }

  /// Reports the `count` most probable tokens. REQUIRES: count is at most kMaxTop and the
  /// vocabulary.
  __device__ void report_tops(std::uint32_t count, double log_sum, Sampled& out) {
    static_assert(SamplingParams::kMaxTop <= kMaxHighest);
    if (list_highest<false>(count) == 0) list_cut(cut_to_count<false>(count), count);
    if (row_.rank == 0 && threadIdx.x < count) {
      const std::uint64_t key = shared().highest[threadIdx.x];
      out.top_token[threadIdx.x] = static_cast<std::int32_t>(TokenKey::token(key));
      out.top_logprob[threadIdx.x] = static_cast<float>(TokenKey::logit(key) - log_sum);
    }
  }

  // --- many tokens -------------------------------------------------------------------------------

  /// The tokens up to and including one, in the order of comes_before.
  struct Cut {
    float logit = -INFINITY;
    std::uint32_t token = ~0u;
    __device__ bool keeps(float other, std::uint32_t other_token) const {
      return other > logit || (other == logit && other_token <= token);
    }
  };

  /// The first `count` tokens by radix select: histograms of eleven bits of the ordered logit at a
  /// time, from the highest bits. REQUIRES: there are so many.
  template <bool kChanged>
  __device__ Cut cut_to_count(std::uint32_t count) {
    std::uint32_t prefix = 0;
    Bin bin{0, count, 0};
    for (unsigned left = 32; left != 0;) {
      const unsigned width = min(left, kBinBits);
      const unsigned shift = left - width;
      for (unsigned at = threadIdx.x; at < kBins; at += kThreads) shared().bins[at] = 0;
      __syncthreads();
      const auto take = [&](std::uint32_t, std::uint32_t token, const Values& values,
                            const Values&) {
#pragma unroll
        for (unsigned run = 0; run < kRuns; ++run) {
          const std::uint32_t key = TokenKey::ordered(Row::number(values[run]));
          const bool is_in = row_.is_own(token + 32 * run) && (left == 32 || key >> left == prefix);
          count_in_bin(key >> shift & ((1u << width) - 1), is_in);
        }
      };
      if (left == 32)
        row_.template for_each_chunk<kChanged>(take);
      else
        row_.template for_each_chunk_from<kChanged>(TokenKey::from_ordered(prefix << left), take);
      bin = find_bin(bin.needed);
      prefix = prefix << width | bin.bin;
      left = shift;
    }
    const float logit = TokenKey::from_ordered(prefix);
    if (bin.needed == bin.found) return {logit, ~0u};
    // Several tokens have this logit: keep the first ones by id.
    const auto is_equal = [&](float value, std::uint32_t, float&) {
      return Row::number(value) == logit ? 1.0f : 0.0f;
    };
    (void)row_.template sum_weights<kChanged>(logit, is_equal);
    return {logit, TokenKey::token(row_.template find<kChanged>(bin.needed - 1, is_equal))};
  }
  /// All lanes of the warp call; lanes with `is_in` count.
  __device__ static void count_in_bin(unsigned bin, bool is_in) {
    const unsigned active = __ballot_sync(~0u, is_in);
    if (!is_in) return;
    // If all lanes share one bin, one of them adds the count: equal logits would serialize on one
    // word.
    int is_same = 0;
    (void)__match_all_sync(active, bin, &is_same);
    const auto leader = static_cast<unsigned>(__ffs(static_cast<int>(active))) - 1;
    if (!is_same)
      atomicAdd(&shared().bins[bin], 1u);
    else if (lane() == leader)
      atomicAdd(&shared().bins[bin], static_cast<unsigned>(__popc(active)));
  }
  /// The bin in which the counts of all blocks, from the highest, reach `needed`.
  __device__ Bin find_bin(std::uint32_t needed) {
    Row::sync();
    if (row_.rank != 0)
      for (unsigned at = threadIdx.x; at < kBins; at += kThreads)
        if (const std::uint32_t own = shared().bins[at]; own != 0)
          atomicAdd(map_shared_rank(&shared().bins[at], 0), own);
    Row::sync();
    if (row_.rank == 0 && Row::warp() == 0) {
      constexpr unsigned kEach = kBins / 32;
      std::uint64_t mine = 0;
      for (unsigned at = 0; at < kEach; ++at)
        mine += shared().bins[kBins - 1 - lane() * kEach - at];
      std::uint64_t place = needed - 1;
      const unsigned owner = lane_at(mine, place);
      unsigned bin = kBins - 1 - owner * kEach;
      for (; place >= shared().bins[bin]; --bin) place -= shared().bins[bin];
      if (lane() < kBlocks)
        *map_shared_rank(&shared().bin, lane()) = {bin, static_cast<std::uint32_t>(place) + 1,
                                                   shared().bins[bin]};
    }
    Row::sync();
    return shared().bin;
  }
  /// The same as list_highest, with an exact cut instead of a bound.
  __device__ void list_cut(const Cut& cut, unsigned count) {
    if (threadIdx.x == 0) shared().listed_count = 0;
    Row::sync();
    row_.template for_each_chunk_from<false>(
        cut.logit, [&](std::uint32_t, std::uint32_t token, const Values& values, const Values&) {
#pragma unroll
          for (unsigned run = 0; run < kRuns; ++run) {
            const float value = Row::number(values[run]);
            if (!row_.is_own(token + 32 * run) || !cut.keeps(value, token + 32 * run)) continue;
            const unsigned at = atomicAdd(map_shared_rank(&shared().listed_count, 0), 1u);
            *map_shared_rank(&shared().all_listed[at], 0) = TokenKey::of(value, token + 32 * run);
          }
        });
    Row::sync();
    if (row_.rank == 0) rank_list(count, count);
  }

  // --- the choice --------------------------------------------------------------------------------

  __device__ typename Row::Scan scan_and_store() {
    row_.sort_biases();
    return row_.template scan<true, true>(params_.temperature != 0);
  }
  __device__ std::uint32_t choose_changed() {
    row_.sort_biases();
    return choose<true>(row_.template scan<true>(params_.temperature != 0).best);
  }
  /// REQUIRES: all logits are finite; `best` comes before all others.
  template <bool kChanged>
  __device__ std::uint32_t choose(std::uint64_t best) {
    const float max = TokenKey::logit(best);
    if (params_.temperature == 0 || !(max > -INFINITY)) return TokenKey::token(best);
    const auto most = static_cast<std::uint32_t>(params_.top_k);
    const bool has_top_k = params_.top_k > 0 && most < row_.vocabulary;
    const float inverse = 1.0f / params_.temperature;
    if (has_top_k && most <= kMaxHighest)
      if (const unsigned found = list_highest<kChanged>(most); found != 0)
        return draw_from_list(found, max, inverse);
    return draw_from_all<kChanged>(has_top_k ? cut_to_most<kChanged>(most) : Cut{}, max, inverse);
  }
  /// The cut of top-k, or no cut if the mask allows no more tokens.
  template <bool kChanged>
  __device__ Cut cut_to_most(std::uint32_t most) {
    const auto is_allowed = [](float value, std::uint32_t, float&) {
      return value > -INFINITY ? 1.0f : 0.0f;
    };
    if (row_.tokens.allowed &&
        row_.template sum_weights<kChanged>(-INFINITY, is_allowed).weights <= most)
      return {};
    return cut_to_count<kChanged>(most);
  }

  /// The first block draws from the first `count` of shared().highest and broadcasts the token.
  __device__ std::uint32_t draw_from_list(unsigned count, float max, float inverse) {
    if (row_.rank == 0) {
      const unsigned at = threadIdx.x;
      const std::uint64_t key = at < count ? shared().highest[at] : 0;
      const std::uint64_t mass = at < count ? mass_of(TokenKey::logit(key), max, inverse) : 0;
      if (at < count) shared().masses[at] = mass;
      __syncthreads();
      std::uint64_t before = 0;  // mass of the tokens before this one
      std::uint64_t all = 0;
      for (unsigned other = 0; at < count && other < count; ++other) {
        all += shared().masses[other];
        before += other < at ? shared().masses[other] : 0;
      }
      const bool stays = params_.top_p == 1 || before < mass_of_top_p(all, params_.top_p);
      unsigned end = count;
      for (std::uint32_t attempt = 0;; ++attempt) {
        if (is_drawn(key, mass, end, attempt)) shared().drawn = {at, stays};
        __syncthreads();
        const Drawn drawn = shared().drawn;
        __syncthreads();
        end = drawn.at;
        if (drawn.stays) break;
      }
      if (at < kBlocks) row_.send_key(at, shared().highest[end]);
    }
    Row::sync();
    return TokenKey::token(row_.broadcast_key());
  }
  /// Whether this thread's token is drawn from the first `end` of the list.
  __device__ bool is_drawn(std::uint64_t key, std::uint64_t mass, unsigned end,
                           std::uint32_t attempt) const {
    if (threadIdx.x >= end) return false;
    const std::uint64_t least = mass_of_min_p(params_.min_p);
    std::uint64_t total = 0;
    std::uint64_t lower = 0;  // mass of tokens with lower ids
    for (unsigned other = 0; other < end; ++other) {
      const std::uint64_t one = shared().masses[other] >= least ? shared().masses[other] : 0;
      total += one;
      lower += TokenKey::token(shared().highest[other]) < TokenKey::token(key) ? one : 0;
    }
    const std::uint64_t point = point_in(total, params_, position_, attempt);
    return mass >= least && point >= lower && point - lower < mass;
  }

  /// sampling.hpp explains the loop for top-p.
  template <bool kChanged>
  __device__ std::uint32_t draw_from_all(Cut cut, float max, float inverse) {
    const auto least = static_cast<float>(mass_of_min_p(params_.min_p));  // 24 bits hold it
    const auto weigh = [&](float logit, std::uint32_t token, float& in_all) {
      if (!cut.keeps(logit, token)) return 0.0f;
      in_all = FloatMass::of(logit, max, inverse);
      return in_all >= least ? in_all : 0.0f;
    };
    const float lowest = fmaxf(cut.logit, max - kFarthest * params_.temperature);
    const auto sums = params_.min_p > 0 ? row_.template sum_weights<kChanged, true>(lowest, weigh)
                                        : row_.template sum_weights<kChanged>(lowest, weigh);
    const std::uint64_t all = params_.min_p > 0 ? sums.all : sums.weights;
    std::uint64_t total = sums.weights;
    for (std::uint32_t attempt = 0;; ++attempt) {
      const std::uint64_t point = point_in(total, params_, position_, attempt);
      const std::uint64_t key = row_.template find<kChanged>(point, weigh);
      const std::uint32_t token = TokenKey::token(key);
      if (params_.top_p == 1) return token;
      const float logit = TokenKey::logit(key);
      // The tokens before it include those of the same logit with lower ids. Token 0 has none.
      cut = token == 0 ? Cut{nextafterf(logit, INFINITY), ~0u} : Cut{logit, token - 1};
      total = row_.template sum_weights<kChanged>(cut.logit, weigh).weights;
      if (total < mass_of_top_p(all, params_.top_p)) return token;
    }
  }

  Row row_;
  const SamplingParams& params_;
  std::int32_t forced_;
  std::int32_t position_;
};

}  // namespace attacca::kernels
