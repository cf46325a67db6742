// highest.cpp: the kernels of highest.hpp. Their bodies are those of sample.hpp: the first half of
// a draw with top-k on every rank, and a draw from the rows of candidates.
#include "kernels/sample/highest.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/blocks.hpp"
#include "kernels/sample/host/draw.hpp"
#include "kernels/sample/host/sample.hpp"
#include "kernels/sample/sampling.hpp"
#if defined(__CUDACC__)
#include "kernels/sample/sample_row.cuh"
#endif

namespace attacca::kernels {
namespace {

void find_on_host(const HighestArgs& a, std::uint32_t row) {
  thread_local std::vector<float> maxima;
  thread_local std::vector<host::Candidate> found;
  const SampleArgs& part = a.part;
  const host::LogitGroups logits(
      {part.logits + std::uint64_t{row} * part.vocabulary, part.vocabulary}, maxima);
  const bool is_finite = logits.is_finite();
  found.assign(Highest::kCount, {std::numeric_limits<float>::quiet_NaN(), 0, 0});
  if (is_finite) host::find_highest(logits, Highest::kCount, found);
  std::sort(found.begin(), found.end(),
            [](const host::Candidate& x, const host::Candidate& y) { return x.token < y.token; });
  for (std::uint32_t at = 0; at < Highest::kCount; ++at) {
    a.out[row].logit[at] = found[at].logit;
    a.out[row].token[at] = found[at].token + static_cast<std::int32_t>(a.first_token);
  }
}

/// The candidate at a place in a row of all ranks'.
struct Candidates {
  const SampleHighestArgs& args;
  std::uint32_t row;

  ATTACCA_HD const Highest& part_of(std::uint32_t place) const {
    return args.parts[std::uint64_t{place / Highest::kCount} * args.sample.rows.capacity + row];
  }
  ATTACCA_HD float logit(std::uint32_t place) const {
    return part_of(place).logit[place % Highest::kCount];
  }
  ATTACCA_HD std::int32_t token(std::uint32_t place) const {
    return part_of(place).token[place % Highest::kCount];
  }
};

void sample_on_host(const SampleHighestArgs& a, std::uint32_t row) {
  thread_local std::vector<std::int32_t> tokens;
  const Candidates candidates{a, row};
  const std::uint32_t count = a.sample.vocabulary;
  tokens.resize(count);
  for (std::uint32_t place = 0; place < count; ++place) {
    a.sample.logits[std::uint64_t{row} * count + place] = candidates.logit(place);
    tokens[place] = candidates.token(place);
  }
  host::sample(a.sample, row, tokens.data());
}

template <unsigned kBlocks>
struct FindHighest {
  static constexpr const char* name = "highest";
  static constexpr bool waits = true;
  static constexpr unsigned max_threads = SampleShape::kThreads;
  static constexpr unsigned min_blocks = 1;
  static constexpr unsigned cluster = kBlocks;
  using Args = HighestArgs;

  static Cost cost(const Args& a) {
    const double logits = 1.0 * a.part.rows.capacity * a.part.vocabulary;
    return {.flops = logits, .bytes = 4 * logits + 1.0 * a.part.rows.capacity * sizeof(Highest)};
  }
  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    for (std::uint32_t row = t.block.x; row < *a.part.rows.count; row += t.blocks.x)
      find_on_host(a, row);
  }
  /// One cluster for each row.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const std::uint32_t row = t.block.x / kBlocks;
    t.release_consumers();
    if (row >= *a.part.rows.count) return t.wait_for_producers();
    RowSampler<kBlocks> sampler(a.part, row);
    t.wait_for_producers();
    Highest& out = a.out[row];
    sampler.find_highest(Highest::kCount, out.logit, out.token,
                         static_cast<std::int32_t>(a.first_token));
#endif
  }
};

struct SampleHighest {
  static constexpr const char* name = "sample_highest";
  static constexpr bool waits = true;
  static constexpr unsigned max_threads = SampleShape::kThreads;
  static constexpr unsigned min_blocks = 1;
  using Args = SampleHighestArgs;

  static Cost cost(const Args& a) {
    return {.flops = 0, .bytes = 8.0 * a.sample.rows.capacity * a.sample.vocabulary};
  }
  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    for (std::uint32_t row = t.block.x; row < *a.sample.rows.count; row += t.blocks.x)
      sample_on_host(a, row);
  }
  /// One block for each row.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const std::uint32_t row = t.block.x;
    t.release_consumers();
    t.wait_for_producers();
    if (row >= *a.sample.rows.count) return;
    const Candidates candidates{a, row};
    const std::uint32_t count = a.sample.vocabulary;
    for (std::uint32_t place = threadIdx.x; place < count; place += SampleShape::kThreads)
      a.sample.logits[std::uint64_t{row} * count + place] = candidates.logit(place);
    __syncthreads();
    RowSampler<1>(a.sample, row).sample(a.sample, row, [&](std::uint32_t place) {
      return static_cast<std::uint32_t>(candidates.token(place));
    });
#endif
  }
};

template <unsigned kBlocks>
const Kernel<HighestArgs>& highest_by() {
  static const Kernel<HighestArgs> kernel = make_kernel<FindHighest<kBlocks>>();
  return kernel;
}

}  // namespace

bool needs_few(const SamplingParams& p) {
  const bool has_few = p.temperature == 0 || (p.top_k > 0 && p.top_k <= int{Highest::kCount});
  return has_few && !has_penalties(p) && p.biases == 0 && p.mask == SamplingParams::kAllTokens &&
         p.follows_edges == 0 && p.wants_logprob == 0 && p.top_logprobs == 0;
}

const Kernel<HighestArgs>& highest(const HighestArgs& args) {
  switch (SampleShape::blocks_for(args.part.rows.capacity)) {
    case 8:
      return highest_by<8>();
    case 4:
      return highest_by<4>();
    case 2:
      return highest_by<2>();
    default:
      return highest_by<1>();
  }
}
Grid grid_of(const HighestArgs& args, bool is_cuda) {
  if (is_cuda) return grid_of(args.part, is_cuda);  // as of the sampler, whose memory it uses
  return host_grid(std::uint64_t{args.part.rows.capacity} * args.part.vocabulary, 65536);
}

const Kernel<SampleHighestArgs>& sample_highest() {
  static const Kernel<SampleHighestArgs> kernel = make_kernel<SampleHighest>();
  return kernel;
}
Grid grid_of(const SampleHighestArgs& args, bool is_cuda) {
  if (!is_cuda) return host_grid(args.sample.rows.capacity, 64);
  unsigned shared_bytes = 0;
#if defined(__CUDACC__)
  shared_bytes = RowSampler<1>::shared_bytes(args.sample.vocabulary);
#endif
  return Grid{Dim3{args.sample.rows.capacity}, Dim3{SampleShape::kThreads}, shared_bytes};
}

}  // namespace attacca::kernels
