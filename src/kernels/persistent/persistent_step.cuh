// persistent_step.cuh: the CUDA body of persistent_step.hpp. Products are those of
// streamed_linear.cuh and attention is that of decode_attention.cuh; here are only the order of
// phases, the ring that all products share, and the waits between phases.
#pragma once

#include "kernels/attention/decode_attention.cuh"
#include "kernels/linear/streamed_linear.cuh"
#include "kernels/persistent/persistent_step.hpp"
#include "kernels/put_residual.hpp"

namespace attacca::kernels::persistent {

/// As in the kernel of one product. More stages leave less of L1, and were slower.
inline constexpr unsigned kRingBytes = streamed::kSharedBytes;
/// Polls of the counter before the clock is read: some milliseconds.
inline constexpr unsigned kEagerPolls = 4096;
/// Whether the norm's squares are requested together with x, not after the first products.
inline constexpr bool kFactorsFirst = true;

/// Four of the eight consumer warps, which attend to a tile together.
struct ConsumerTeam {
  static constexpr unsigned kTeams = streamed::kConsumerThreads / attending::kThreads;
  __device__ static unsigned index() { return threadIdx.x / attending::kThreads; }
  __device__ static unsigned thread() { return threadIdx.x % attending::kThreads; }
  /// Named barriers 2 and 3; barrier 1 is for both teams.
  __device__ static void sync() {
    asm volatile("bar.sync %0, %1;" ::"r"(2 + index()), "n"(attending::kThreads) : "memory");
  }
};

template <unsigned kRows8, unsigned kSize>
class StepBlock {
 public:
  using Product = streamed::Block<streamed::Bf16, kRows8>;
  using Attention = attending::DecodeBlock<KvType::bf16, kSize, false, ConsumerTeam>;
  static_assert(Product::kTileRows == kPersistentTileRows);

  /// Of a team: what DecodeBlock wants, and the plan's words right behind it.
  struct TeamMemory {
    typename Attention::Shared attention;
    std::uint32_t plan[3 * kMostPersistentRows + 1];
  };
  /// In dynamic shared memory, behind the ring's stages.
  struct Shared {
    alignas(16) TeamMemory teams[ConsumerTeam::kTeams];
    Phase consumed[2];  // the current phase and the next one
    Phase produced[streamed::kProducerWarps][2];
    // Facts of the step, here and not in registers, which attention needs.
    std::uint32_t tokens;
    std::uint32_t rows;                            // that get logits
    attending::Plan<attending::Cut>::Counts plan;  // of attention, the same in all layers
    std::uint32_t attending;                       // blocks that have tiles of attention
    PhaseTime time;  // of the current phase; `worked` is when it began
    WaitBound bound;
  };

  __device__ explicit StepBlock(const PersistentStepArgs& args) : a_(args) {}

  __device__ void run(WaitingThread& t) {
    if (threadIdx.x == 0) {
      Product::ring().init();
      shared().bound.init();
      shared().tokens = min(*a_.token_count, a_.capacity);
      shared().rows = min(*a_.row_count, a_.capacity);
    }
    __syncthreads();
    if (threadIdx.x >= streamed::kConsumerThreads)
      produce();
    else
      consume(t);
    Product::ring().report(t);
    shared().bound.report(
        t, [&](unsigned, unsigned) { return a_.counter->arrived(); },
        [&](unsigned) { return a_.patience_nanoseconds; });
  }

 private:
  using State = typename Product::State;

  // Phases are copied to shared memory one ahead, so that no one waits for their arguments.

  /// Starts to copy; the first threads of those that call take part.
  __device__ void fetch(Phase& to, std::uint32_t index, unsigned thread) const {
    constexpr unsigned kWords = sizeof(Phase) / 16;
    if (index < a_.count && thread < kWords)
      attending::cp_async(reinterpret_cast<uint4*>(&to) + thread,
                          reinterpret_cast<const uint4*>(a_.phases + index) + thread, true);
    attending::cp_async_commit();
  }
  __device__ std::uint32_t count_of(const Phase& phase) const {
    return phase.is_for_logits ? shared().rows : shared().tokens;
  }

  /// A producer warp: streams the block's tiles of all products. It waits for free stages only.
  __device__ void produce() {
    if (shared().tokens == 0) return;
    const unsigned lane = threadIdx.x % 32;
    Phase(&phases)[2] = shared().produced[threadIdx.x / 32 - streamed::kConsumerWarps];
    State state;
    fetch(phases[0], a_.first_product, lane);
    for (unsigned slot = 0;; slot ^= 1) {
      attending::cp_async_wait<0>();
      __syncwarp();
      const Phase& phase = phases[slot];
      const std::uint32_t next = phase.next_product;
      if (next != Phase::kNone) fetch(phases[slot ^ 1], next, lane);
      if (count_of(phase) != 0) {
        Product product(phase.product(), state);
        if (!product.stream()) return;
        state = product.state();
      }
      if (next == Phase::kNone) return;
    }
  }

  /// The consumer warps.
  __device__ void consume(WaitingThread& t) {
    Phase(&phases)[2] = shared().consumed;
    fetch(phases[0], 0, threadIdx.x);
    fetch(phases[1], a_.first_attention, threadIdx.x);
    attending::cp_async_wait<0>();
    streamed::sync_consumers();
    const attending::Plan<attending::Cut>::Counts plan = attention_of(phases[1]).make_plan();
    if (threadIdx.x == 0) {
      shared().plan = plan;
      shared().attending = min(plan.tiles, gridDim.x);
    }
    streamed::sync_consumers();  // the second phase takes the place of attention's
    t.wait_for_producers();
    for (std::uint32_t index = 0; shared().tokens != 0 && index < a_.count; ++index) {
      fetch(phases[(index + 1) % 2], index + 1, threadIdx.x);
      const Phase& phase = phases[index % 2];
      if (phase.is_last) t.release_consumers();
      if (a_.times && threadIdx.x == 0) shared().time = {0, now()};
      const bool arrives = run_phase(phase, index) && !phase.is_last;
      attending::cp_async_wait<0>();
      // All that the block reads and writes in this phase is done, and the next phase is there.
      streamed::sync_consumers();
      if (arrives && threadIdx.x == 0) a_.counter->arrive();
      if (a_.times && threadIdx.x == 0)
        a_.times[blockIdx.x * a_.count + index] = {shared().time.waited,
                                                   now() - shared().time.worked};
    }
    if (threadIdx.x == 0) a_.counter->leave(gridDim.x);
  }

  /// False: the block has no work in this phase.
  __device__ bool run_phase(const Phase& phase, std::uint32_t index) {
    switch (phase.kind) {
      case PhaseKind::product:
        return run_product(phase, index);
      case PhaseKind::attention:
        return run_attention(phase, index);
      default:
        return run_embed(phase);
    }
  }
  __device__ bool run_product(const Phase& phase, std::uint32_t index) {
    Product product(phase.product(), state_);
    const std::uint32_t count = count_of(phase);
    if (!product.has_tiles() || count == 0) return false;
    product.prepare(count);
    wait(phase, index);
    product.template multiply_all<kFactorsFirst>(count);
    state_ = product.state();
    return true;
  }
  __device__ bool run_attention(const Phase& phase, std::uint32_t index) {
    if (blockIdx.x >= shared().attending) return false;
    attention_of(phase).run_layer(shared().plan, blockIdx.x + ConsumerTeam::index() * gridDim.x,
                                  ConsumerTeam::kTeams * gridDim.x, [&] { wait(phase, index); });
    return true;
  }
  /// One thread for each element. What the kernels before wrote is there.
  __device__ bool run_embed(const Phase& phase) {
    static_assert(kEmbedElements == streamed::kConsumerThreads);
    const EmbedResidualArgs& e = phase.embed();
    Thread t(Dim3{blockIdx.x}, Dim3{gridDim.x});
    t.threads.x = kEmbedElements;
    for (; t.block.x * kEmbedElements < shared().tokens * e.residual.columns;
         t.block.x += gridDim.x)
      put_element(t, e.residual, e.rows, e.next_norm, [&](std::uint64_t row, std::uint32_t column) {
        return embedded(e, row, column);
      });
    return blockIdx.x * kEmbedElements < a_.capacity * e.residual.columns;
  }

  /// All consumer threads: wait for all blocks to finish the phases before. If that takes too long,
  /// the results are garbage, and the host learns of it; the block goes on, so that no other block
  /// waits for it in vain.
  __device__ void wait(const Phase& phase, std::uint32_t index) {
    if (threadIdx.x == 0) {
      const std::uint32_t wanted = phase.wanted(shared().attending);
      bool is_there = false;
      for (unsigned poll = 0; poll < kEagerPolls && !is_there; ++poll)
        is_there = a_.counter->has(wanted);
      if (!is_there)
        (void)shared().bound.wait(kWaitForPhase, index, a_.patience_nanoseconds,
                                  [&] { return a_.counter->has(wanted); });
      if (a_.times) shared().time = {now() - shared().time.worked, now()};
    }
    streamed::sync_consumers();
  }

  __device__ static std::uint32_t now() { return static_cast<std::uint32_t>(clock()); }
  __device__ Attention attention_of(const Phase& phase) const {
    return Attention(phase.attention(),
                     reinterpret_cast<uint4*>(&shared().teams[ConsumerTeam::index()]));
  }
  __device__ static Shared& shared() {
    extern __shared__ __align__(128) uint4 step_memory[];
    return *reinterpret_cast<Shared*>(reinterpret_cast<unsigned char*>(step_memory) + kRingBytes);
  }

  const PersistentStepArgs& a_;
  State state_;  // of a consumer warp
};

}  // namespace attacca::kernels::persistent
