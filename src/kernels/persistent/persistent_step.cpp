// persistent_step.cpp: instantiates the kernels of persistent_step.hpp for 8 or 16 rows and each
// head size, with their grid, and the host reference: one phase after another, by one block. The
// CUDA body is in persistent_step.cuh.
#include "kernels/persistent/persistent_step.hpp"

#include "kernels/attention/attention_kernels.hpp"
#include "kernels/waits.hpp"

#if defined(__CUDACC__)
#include "kernels/persistent/persistent_step.cuh"
#endif

namespace attacca::kernels {
namespace {

// These repeat persistent_step.cuh and streamed_linear.cuh, which only nvcc can read.
constexpr unsigned kThreads = 320;
constexpr unsigned kRingBytes = 6 * 8 * (2 * 1024 + 128);
constexpr unsigned kTeams = 2;

/// Shared memory of a block: the ring's stages; for each team that attends what
/// decode_attention.cpp counts, and the plan; copies of phases.
constexpr unsigned shared_bytes(unsigned size) {
  const unsigned attention = 32 * (size + 32) + 48 * size + 128 * (size + 4) + 512;
  const unsigned plan = 4 * (3 * kMostPersistentRows + 1) + 12;
  return kRingBytes + kTeams * (attention + plan) + 6 * sizeof(Phase) + 128;
}

template <unsigned kRows8, unsigned kSize>
struct PersistentStep {
  static constexpr const char* name = "persistent_step";
  static constexpr bool waits = true;
  static constexpr bool blocks_wait = true;
  static constexpr const char* waits_for[] = {
      kFullWait, kEmptyWait,
      "all blocks to finish a step's earlier phases (by index; saw arrivals)"};
  static constexpr unsigned max_threads = kThreads;
  static constexpr unsigned min_blocks = 1;
  using Args = PersistentStepArgs;

  static Cost cost(const Args& a) {
    return {.flops = a.flops, .bytes = a.bytes, .arithmetic = Arithmetic::bf16};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    for (std::uint32_t index = 0; index < a.count; ++index) {
      const Phase& phase = a.phases[index];
      switch (phase.kind) {
        case PhaseKind::embed:
          embed_residual_on_host(t, phase.embed());
          break;
        case PhaseKind::product:
          streamed_linear_on_host(t, phase.product());
          break;
        case PhaseKind::attention:
          decode_attention_on_host(t, phase.attention());
          break;
      }
    }
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    using Block = persistent::StepBlock<kRows8, kSize>;
    static_assert(kThreads == 32 * (streamed::kConsumerWarps + streamed::kProducerWarps));
    static_assert(kRingBytes == persistent::kRingBytes);
    static_assert(persistent::kRingBytes + sizeof(typename Block::Shared) <= shared_bytes(kSize));
    Block(a).run(t);
#endif
  }
};

template <unsigned kRows8, unsigned kSize>
const Kernel<PersistentStepArgs>& kernel_of() {
  static const Kernel<PersistentStepArgs> kernel = make_kernel<PersistentStep<kRows8, kSize>>();
  return kernel;
}

}  // namespace

const Kernel<PersistentStepArgs>& persistent_step(const PersistentStepArgs& args) {
  const bool is_few = args.capacity <= 8;
  if (padded_head(args.head_size) == 64) return is_few ? kernel_of<1, 64>() : kernel_of<2, 64>();
  return is_few ? kernel_of<1, 128>() : kernel_of<2, 128>();
}

Grid persistent_grid(const PersistentStepArgs& args, bool is_cuda, unsigned processors) {
  if (!is_cuda) return Grid{};
  return Grid{Dim3{processors}, Dim3{kThreads}, shared_bytes(padded_head(args.head_size))};
}

}  // namespace attacca::kernels
