// sample.cpp: the kernel of sample.hpp; its host body is in host/sample.cpp.
#include "kernels/sample.hpp"

#include <attacca/error.hpp>
#include <string>

#include "kernels/blocks.hpp"
#include "kernels/host/sample.hpp"
#if defined(__CUDACC__)
#include "kernels/cuda/sample_row.cuh"
#endif

namespace attacca::kernels {
namespace {

struct Sample {
  static constexpr const char* name = "sample";
  static constexpr bool waits = true;
  static constexpr unsigned max_threads = SampleShape::kThreads;
  static constexpr unsigned min_blocks = 1;
  static constexpr unsigned cluster = SampleShape::kBlocks;
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

  /// A cluster for each row.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const std::uint32_t row = t.block.x / SampleShape::kBlocks;
    if (row >= *a.rows.count) return t.wait_for_producers();
    RowSampler sampler(a, row);  // the plan of a step stands before its first kernel starts
    const std::int32_t position = a.positions[row];
    t.wait_for_producers();
    sampler.sample(position, a.out[row]);
#endif
  }
};

}  // namespace

const Kernel<SampleArgs>& sample() {
  static const Kernel<SampleArgs> kernel = make_kernel<Sample>();
  return kernel;
}

Grid grid_of(const SampleArgs& args, bool is_cuda) {
  if (!is_cuda) return host_grid(args.rows.capacity, 1);
  if (args.vocabulary > SampleShape::kMaxVocabulary)
    throw BadArgument("sampling from a vocabulary of " + std::to_string(args.vocabulary) +
                      " tokens; on a GPU at most " + std::to_string(SampleShape::kMaxVocabulary) +
                      ", or use --device host");
  return Grid{Dim3{args.rows.capacity * SampleShape::kBlocks}, Dim3{SampleShape::kThreads},
              SampleShape::kFixedBytes +
                  SampleShape::share_of(args.vocabulary) * static_cast<unsigned>(sizeof(float))};
}

}  // namespace attacca::kernels
