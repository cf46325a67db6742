// sample.cpp: the kernel of sample.hpp; its host body is in host/sample.cpp.
#include "kernels/sample.hpp"

#include "kernels/blocks.hpp"
#include "kernels/host/sample.hpp"
#include "kernels/sampling.hpp"

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 512;

#if defined(__CUDACC__)
struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// All threads of a block combine their values; all get the result.
template <class T, class Combine>
__device__ T combined(T value, Combine combine) {
  __shared__ T parts[kThreads / 32];
  for (unsigned step = 16; step != 0; step /= 2)
    value = combine(value, __shfl_xor_sync(~0u, value, step));
  __syncthreads();  // the parts of the call before are read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (unsigned warp = 1; warp < kThreads / 32; ++warp) value = combine(value, parts[warp]);
  return value;
}

/// An order of floats as integers. REQUIRES: not -0, not NaN.
__device__ std::uint32_t ordered(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/// The tokens that stay: those with a higher key, and of those with this key the first ones.
struct Cut {
  std::uint64_t key = 0;
  std::uint32_t last_token = 0xffffffffu;
  __device__ bool keeps(std::uint64_t other_key, std::uint32_t token) const {
    return other_key > key || (other_key == key && token <= last_token);
  }
};

/// One row, sampled by one block. All threads call all functions, together.
class RowSampler {
 public:
  __device__ RowSampler(const SampleArgs& args, std::uint32_t row)
      : vocabulary_(args.vocabulary),
        slot_(static_cast<std::uint32_t>(args.slots[row])),
        params_(args.params[slot_]),
        forced_(is_forced(args, row) ? args.forced[row] : -1),
        raw_(args.logits + static_cast<std::uint64_t>(row) * vocabulary_),
        seen_(has_penalties(params_)
                  ? args.seen.counts + static_cast<std::uint64_t>(slot_) * vocabulary_
                  : nullptr),
        scan_(args.scan ? args.scan + static_cast<std::uint64_t>(row) * LogitScan::kParts
                        : nullptr) {}

  __device__ void sample(std::int32_t position, Sampled& out) const {
    const auto raw = [this](std::uint32_t token) { return number(raw_[token]); };
    const auto changed = [this](std::uint32_t token) { return logit(token); };
    const double log_sum = scan_ ? scanned_log_sum() : log_sum_of(raw);
    std::uint64_t below = ~0ull;
    for (std::uint32_t at = 0; at < params_.top_logprobs && at < vocabulary_; ++at) {
      below = highest(raw, below);
      if (threadIdx.x != 0) continue;
      out.top_token[at] = static_cast<std::int32_t>(~static_cast<std::uint32_t>(below));
      out.top_logprob[at] = static_cast<float>(raw_[out.top_token[at]] - log_sum);
    }
    const std::uint32_t token =
        forced_ >= 0 ? static_cast<std::uint32_t>(forced_)
        : params_.temperature == 0
            ? ~static_cast<std::uint32_t>(scan_ ? scanned_best() : highest(changed, ~0ull))
            : draw(position);
    __syncthreads();  // the counts of seen tokens are read
    if (threadIdx.x != 0) return;
    out.tops = params_.top_logprobs < vocabulary_ ? params_.top_logprobs : vocabulary_;
    out.token = static_cast<std::int32_t>(token);
    out.logprob = static_cast<float>(raw_[token] - log_sum);
    out.ending = ending_of(params_, out.token, position);
    if (seen_) seen_[token] = counted(seen_[token]);
  }

  /// Looks at one part of the row.
  __device__ void scan(std::uint32_t part) const {
    const std::uint32_t share = (vocabulary_ + LogitScan::kParts - 1) / LogitScan::kParts;
    const std::uint32_t first = min(vocabulary_, part * share);
    const std::uint32_t last = min(vocabulary_, first + share);
    float max = -INFINITY;
    std::uint64_t best = 0;
    each_between(first, last, [&](std::uint32_t token, float raw) {
      max = fmaxf(max, number(raw));
      const std::uint64_t key = key_of(logit(token, raw), token);
      if (key > best) best = key;
    });
    max = combined(max, Larger());
    best = combined(best, Larger());
    double sum = 0;
    each_between(first, last, [&](std::uint32_t, float raw) { sum += expf(raw - max); });
    sum = combined(sum, Sum());
    if (threadIdx.x == 0) scan_[part] = {max, max > -INFINITY ? sum : 0, best};
  }

 private:
  template <class RawOf>
  __device__ double log_sum_of(RawOf raw) const {
    const float max = max_of(raw);
    double sum = 0;
    for_each([&](std::uint32_t token) { sum += expf(raw_[token] - max); });
    return max + log(combined(sum, Sum()));
  }
  /// The same from the parts. A warp reads one part in each lane; all warps do the same.
  __device__ double scanned_log_sum() const {
    static_assert(LogitScan::kParts == 32);
    const LogitScan& part = scan_[threadIdx.x % 32];
    float max = part.max;
    for (unsigned step = 16; step != 0; step /= 2)
      max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
    double sum = part.sum == 0 ? 0 : part.sum * exp(static_cast<double>(part.max) - max);
    for (unsigned step = 16; step != 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    return max + log(sum);
  }
  __device__ std::uint64_t scanned_best() const {
    std::uint64_t best = scan_[threadIdx.x % 32].best;
    for (unsigned step = 16; step != 0; step /= 2)
      best = Larger()(best, __shfl_xor_sync(~0u, best, step));
    return best;
  }

  __device__ static std::uint64_t key_of(float logit, std::uint32_t token) {
    return static_cast<std::uint64_t>(ordered(logit)) << 32 | std::uint32_t{~token};
  }
  /// What is not a number counts as minus infinity, and -0 as 0.
  __device__ static float number(float value) { return value == value ? value + 0.0f : -INFINITY; }
  __device__ float logit(std::uint32_t token) const { return logit(token, raw_[token]); }
  __device__ float logit(std::uint32_t token, float raw) const {
    return number(adjusted(raw, static_cast<std::int32_t>(token),
                           seen_ ? seen_[token] : std::uint16_t{0}, params_));
  }

  /// A run of tokens and their logits, of which a thread asks for eight at a time.
  template <class Take>
  __device__ void each_between(std::uint32_t first, std::uint32_t last, Take take) const {
    constexpr unsigned kAtOnce = 8;
    for (std::uint32_t at = first + threadIdx.x; at < last; at += kAtOnce * kThreads) {
      float raw[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i)
        raw[i] = at + i * kThreads < last ? raw_[at + i * kThreads] : 0;
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i)
        if (at + i * kThreads < last) take(at + i * kThreads, raw[i]);
    }
  }
  template <class Take>
  __device__ void for_each(Take take) const {
    for (std::uint32_t token = threadIdx.x; token < vocabulary_; token += kThreads) take(token);
  }
  template <class LogitOf>
  __device__ float max_of(LogitOf logit_of) const {
    float max = -INFINITY;
    for_each([&](std::uint32_t token) { max = fmaxf(max, logit_of(token)); });
    return combined(max, Larger());
  }
  template <class MassOf>
  __device__ std::uint64_t total(MassOf mass_of_token) const {
    std::uint64_t sum = 0;
    for_each([&](std::uint32_t token) { sum += mass_of_token(token); });
    return combined(sum, Sum());
  }

  /// The highest (logit, lowest token) below another, as one number.
  template <class LogitOf>
  __device__ std::uint64_t highest(LogitOf logit_of, std::uint64_t below) const {
    std::uint64_t best = 0;
    for_each([&](std::uint32_t token) {
      const std::uint64_t key = key_of(logit_of(token), token);
      if (key < below && key > best) best = key;
    });
    return combined(best, Larger());
  }

  /// The token at `point` when the masses of all are laid end to end by id.
  template <class MassOf>
  __device__ std::uint32_t token_at(MassOf mass_of_token, std::uint64_t point) const {
    __shared__ std::uint64_t masses[kThreads];
    __shared__ std::uint32_t found;
    const std::uint32_t share = (vocabulary_ + kThreads - 1) / kThreads;
    const std::uint32_t first = min(vocabulary_, threadIdx.x * share);
    const std::uint32_t last = min(vocabulary_, first + share);
    std::uint64_t own = 0;
    for (std::uint32_t token = first; token < last; ++token) own += mass_of_token(token);
    __syncthreads();  // what was found before is read
    masses[threadIdx.x] = own;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    for (unsigned thread = 0; thread < threadIdx.x && point != ~0ull; ++thread)
      point = point < masses[thread] ? ~0ull : point - masses[thread];
    if (point < own) {
      std::uint32_t token = first;
      for (; point >= mass_of_token(token); ++token) point -= mass_of_token(token);
      found = token;
    }
    __syncthreads();
    return found;
  }

  /// The fewest tokens, highest key first, whose mass reaches `needed`. Tokens of one key have one
  /// mass. Finds the last one's key byte by byte, from `shift` down.
  template <class KeyOf, class MassOf>
  __device__ Cut cut_to(std::uint64_t needed, int shift, KeyOf key_of, MassOf mass_of_token) const {
    __shared__ unsigned long long bins[256];
    Cut cut;
    for (; shift >= 0; shift -= 8) {
      for (unsigned bin = threadIdx.x; bin < 256; bin += kThreads) bins[bin] = 0;
      __syncthreads();
      for_each([&](std::uint32_t token) {
        const std::uint64_t key = key_of(token);
        const std::uint64_t mass = mass_of_token(token);
        if (mass != 0 && key >> (shift + 8) == cut.key >> (shift + 8))
          atomicAdd(&bins[key >> shift & 255], static_cast<unsigned long long>(mass));
      });
      __syncthreads();
      unsigned bin = 255;
      for (; bin != 0 && bins[bin] < needed; --bin) needed -= bins[bin];
      cut.key |= static_cast<std::uint64_t>(bin) << shift;
      __syncthreads();
    }
    const auto is_last = [&](std::uint32_t token) {
      return key_of(token) == cut.key ? mass_of_token(token) : std::uint64_t{0};
    };
    cut.last_token = token_at(is_last, needed - 1);
    return cut;
  }

  __device__ std::uint32_t draw(std::int32_t position) const {
    const float max = max_of([this](std::uint32_t token) { return logit(token); });
    if (!(max > -INFINITY)) return 0;
    const auto order_of = [&](std::uint32_t token) {
      return static_cast<std::uint64_t>(ordered(logit(token)));
    };
    Cut top_k;
    if (params_.top_k > 0 && static_cast<std::uint32_t>(params_.top_k) < vocabulary_)
      top_k = cut_to(static_cast<std::uint64_t>(params_.top_k), 24, order_of,
                     [](std::uint32_t) { return std::uint64_t{1}; });
    const auto mass_in_top_k = [&](std::uint32_t token) {
      return top_k.keeps(order_of(token), token) ? mass_of(logit(token), max, params_.temperature)
                                                 : std::uint64_t{0};
    };
    Cut top_p;
    if (params_.top_p < 1)
      top_p = cut_to(mass_of_top_p(total(mass_in_top_k), params_.top_p), 40, mass_in_top_k,
                     mass_in_top_k);
    const std::uint64_t least = mass_of_min_p(params_.min_p);
    const auto mass_left = [&](std::uint32_t token) {
      const std::uint64_t mass = mass_in_top_k(token);
      return mass >= least && top_p.keeps(mass, token) ? mass : std::uint64_t{0};
    };
    return token_at(mass_left, point_in(total(mass_left), params_, position));
  }

  std::uint32_t vocabulary_;
  std::uint32_t slot_;
  const SamplingParams& params_;
  std::int32_t forced_;
  const float* raw_;
  std::uint16_t* seen_;
  LogitScan* scan_;
};
#endif

struct ScanLogits {
  static constexpr const char* name = "scan_logits";
  static constexpr bool waits = true;
  using Args = SampleArgs;

  static Cost cost(const Args& a) {
    const double logits = 1.0 * a.rows.capacity * a.vocabulary;
    return {.flops = 4 * logits, .bytes = 4 * logits};
  }

  /// The host samples a row in one go.
  static void host_block(Thread& t, const Args&) { t.wait_for_producers(); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    t.release_consumers();
    const std::uint32_t row = t.block.x / LogitScan::kParts;
    if (row >= *a.rows.count) return t.wait_for_producers();
    const RowSampler sampler(a, row);  // the plan of a step stands before its first kernel starts
    t.wait_for_producers();
    sampler.scan(t.block.x % LogitScan::kParts);
#endif
  }
};

struct Sample {
  static constexpr const char* name = "sample";
  static constexpr bool waits = true;
  using Args = SampleArgs;

  /// Finding the maximum, and the sum of exponentials for the log-probability.
  static Cost cost(const Args& a) {
    const double logits = 1.0 * a.rows.capacity * a.vocabulary;
    return {.flops = 4 * logits, .bytes = 4 * logits + 1.0 * a.rows.capacity * sizeof(Sampled)};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    for (std::uint32_t row = t.block.x; row < *a.rows.count; row += t.blocks.x)
      host::sample(a, row);
  }

  /// A block for each row.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    if (t.block.x >= *a.rows.count) return t.wait_for_producers();
    const RowSampler sampler(a, t.block.x);
    const std::int32_t position = a.positions[t.block.x];
    t.wait_for_producers();
    sampler.sample(position, a.out[t.block.x]);
#endif
  }
};

}  // namespace

const Kernel<SampleArgs>& sample() {
  static const Kernel<SampleArgs> kernel = make_kernel<Sample>();
  return kernel;
}

const Kernel<SampleArgs>& scan_logits() {
  static const Kernel<SampleArgs> kernel = make_kernel<ScanLogits>();
  return kernel;
}

Grid scan_grid(const SampleArgs& args) {
  return Grid{Dim3{args.rows.capacity * LogitScan::kParts}, Dim3{kThreads}};
}

Grid grid_of(const SampleArgs& args, bool is_cuda) {
  if (is_cuda) return Grid{Dim3{args.rows.capacity}, Dim3{kThreads}};
  return host_grid(args.rows.capacity, 1);
}

}  // namespace attacca::kernels
