// sample.cpp: the kernel of sample.hpp for each cluster size, and its grid. The CUDA body is in
// sample_row.cuh, the host body in host/sample.cpp.
#include "kernels/sample/sample.hpp"

#include <attacca/error.hpp>
#include <string>

#include "kernels/blocks.hpp"
#include "kernels/sample/host/sample.hpp"
#if defined(__CUDACC__)
#include "kernels/sample/sample_row.cuh"
#endif

namespace attacca::kernels {
namespace {

template <unsigned kBlocks>
struct Sample {
  static constexpr const char* name = "sample";
  static constexpr bool waits = true;
  static constexpr unsigned max_threads = SampleShape::kThreads;
  static constexpr unsigned min_blocks = 1;
  static constexpr unsigned cluster = kBlocks;
  using Args = SampleArgs;

  /// The cost of finding the maximum, the least that sampling does.
  static Cost cost(const Args& a) {
    const double logits = 1.0 * a.rows.capacity * a.vocabulary;
    return {.flops = logits, .bytes = 4 * logits + 1.0 * a.rows.capacity * sizeof(Sampled)};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    for (std::uint32_t row = t.block.x; row < *a.rows.count; row += t.blocks.x)
      host::sample(a, row);
  }

  /// One cluster for each row.
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const std::uint32_t row = t.block.x / kBlocks;
    t.release_consumers();
    if (row >= *a.rows.count) return t.wait_for_producers();
    RowSampler<kBlocks> sampler(
        a, row);  // the host writes a step's parameters before its kernels start
    t.wait_for_producers();
    sampler.sample(a, row);
#endif
  }
};

template <unsigned kBlocks>
const Kernel<SampleArgs>& sample_by() {
  static const Kernel<SampleArgs> kernel = make_kernel<Sample<kBlocks>>();
  return kernel;
}

unsigned shared_bytes([[maybe_unused]] unsigned blocks, [[maybe_unused]] std::uint32_t vocabulary) {
#if defined(__CUDACC__)
  switch (blocks) {
    case 8:
      return RowSampler<8>::shared_bytes(vocabulary);
    case 4:
      return RowSampler<4>::shared_bytes(vocabulary);
    case 2:
      return RowSampler<2>::shared_bytes(vocabulary);
    default:
      return RowSampler<1>::shared_bytes(vocabulary);
  }
#else
  return 0;
#endif
}

}  // namespace

const Kernel<SampleArgs>& sample(const SampleArgs& args) {
  switch (SampleShape::blocks_for(args.rows.capacity)) {
    case 8:
      return sample_by<8>();
    case 4:
      return sample_by<4>();
    case 2:
      return sample_by<2>();
    default:
      return sample_by<1>();
  }
}

Grid grid_of(const SampleArgs& args, bool is_cuda) {
  if (!is_cuda) return host_grid(args.rows.capacity, 1);
  if (args.vocabulary > SampleShape::kMaxVocabulary)
    throw BadArgument("sampling from a vocabulary of " + std::to_string(args.vocabulary) +
                      " tokens; on a GPU at most " + std::to_string(SampleShape::kMaxVocabulary) +
                      ", or use --device host");
  const unsigned blocks = SampleShape::blocks_for(args.rows.capacity);
  return Grid{Dim3{args.rows.capacity * blocks}, Dim3{SampleShape::kThreads},
              shared_bytes(blocks, args.vocabulary)};
}

}  // namespace attacca::kernels
