// persistent.hpp: several kernels compiled into one that stays on the device and runs a loop's
// body pass after pass, with a grid barrier where the graph has an edge. One of the forms a Loop
// can take (loop.hpp); the list of kernels is fixed when the file is compiled:
//
//   const PersistentProgram relax_forever = make_persistent<Relax, TestResidual>();
#pragma once

#include <attacca/device/records_ref.hpp>
#include <attacca/device/wait.hpp>
#include <attacca/kernel.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace attacca {

namespace detail {

/// One kernel launch of the body.
struct PersistentStep {
  unsigned kernel;  // index in the program's list
  Dim3 blocks;
  unsigned args_offset;  // in bytes, from the start of the code
  unsigned site;         // number of the site that records it
};

/// Arguments of the persistent kernel.
struct PersistentArgs {
  const std::byte* code;  // the steps, then their arguments
  unsigned step_count;
  unsigned* again;                                           // the loop's condition
  device::Atomic<std::uint32_t, device::Scope::gpu>* words;  // of the grid barrier
  std::uint64_t patience_nanoseconds;                        // at the grid barrier
  device::SiteRef pass = {};  // records passes, and the steps in them
};

/// Records the begins and ends of a persistent kernel's passes and steps, for one of its threads.
class PassRecorder {
 public:
  ATTACCA_HD PassRecorder(const PersistentArgs& args, bool is_chosen)
      : args_(args), records_(is_chosen && args.pass) {}
  ATTACCA_HD void begin_pass() {
    ++pass_;
    add(args_.pass.number, device::SiteEvent::begins);
  }
  ATTACCA_HD void end_pass() { add(args_.pass.number, device::SiteEvent::ends); }
  ATTACCA_HD void begin(const PersistentStep& step) { add(step.site, device::SiteEvent::begins); }
  ATTACCA_HD void end(const PersistentStep& step) { add(step.site, device::SiteEvent::ends); }

 private:
  ATTACCA_HD void add(std::uint32_t site, device::SiteEvent event) {
    if (records_) args_.pass.records.add(device::SiteRef::what(site, event), 0, pass_);
  }
  const PersistentArgs& args_;  // not copied: kernels that record nothing keep their registers
  bool records_;
  std::uint32_t pass_ = 0;
};

/// The kernel and those it was compiled from.
struct PersistentParts {
  KernelInfo kernel;
  std::vector<const KernelInfo*> parts;
};

/// A barrier at which all blocks of a grid wait for each other between steps 1, 2, 3 and so on. One
/// thread of each block calls. Its words are zero at first.
struct GridBarrier {
  using Word = device::Atomic<std::uint32_t, device::Scope::gpu>;
  enum class Verdict : std::uint8_t { stop, go_on, overdue, broken };
  static constexpr unsigned words_for(unsigned blocks) { return 2 + blocks; }

  Word* words;  // arrivals; the step that all came to, and the verdict; by block, its last step
  unsigned blocks;

  /// Waits for all blocks. The last one to arrive calls `wants_more`, so that no block can see a
  /// value of the next step. The first block to run out of patience gets `overdue`, others
  /// `broken`.
  template <class WantsMore>
  ATTACCA_HD Verdict come(unsigned block, unsigned step, const device::Patience& patience,
                          WantsMore&& wants_more) const {
    using device::acq_rel, device::acquire, device::relaxed;
    if (blocks == 1) return wants_more() ? Verdict::go_on : Verdict::stop;
    const std::uint32_t mark = (step & kSteps) * 2;
    words[2 + block].store(step, relaxed);
    // Every arrival releases its block's writes, and the last one acquires them all. Its exchange
    // releases them to the blocks that wait.
    if (words[0].fetch_add(1, acq_rel) + 1 == step * blocks) {
      const std::uint32_t more = wants_more() ? 1 : 0;
      if (words[1].exchange(mark + more, acq_rel) != kBroken) return static_cast<Verdict>(more);
      words[1].store(kBroken, relaxed);  // too late; blocks past this step learn it at the next
      return Verdict::broken;
    }
    // The launch is cooperative, so every block is resident, and the wait is as long as the slowest
    // block's work. Long waits leave the processor to the other blocks.
    std::uint32_t seen = 0;
    const bool is_over = device::detail::wait_for<device::NativeMemory>(
        patience, step,
        [&] {
          seen = words[1].load(acquire);
          return (seen & ~1u) == mark || seen == kBroken;
        },
        [&] { return std::uint64_t{first_missing(step)}; });
    if (!is_over)
      return words[1].exchange(kBroken, relaxed) == kBroken ? Verdict::broken : Verdict::overdue;
    return seen == kBroken ? Verdict::broken : static_cast<Verdict>(seen & 1u);
  }
  /// The first block that has not reached `step`; `blocks` where all have.
  ATTACCA_HD unsigned first_missing(unsigned step) const {
    const auto has_come = [&](unsigned block) {
      const std::uint32_t beyond = words[2 + block].load(device::relaxed) - step;
      return static_cast<std::int32_t>(beyond) >= 0;
    };
    unsigned block = 0;
    while (block < blocks && has_come(block)) ++block;
    return block;
  }

 private:
  static constexpr std::uint32_t kSteps = (1u << 30) - 1;  // steps are told apart modulo this + 1
  static constexpr std::uint32_t kBroken = ~0u;
};

#if defined(__CUDACC__)
/// Waits for all blocks of the grid. True: go on.
__device__ inline bool pass_barrier(const PersistentArgs& args, const LaunchPort& port,
                                    unsigned step, bool is_last_of_pass) {
  __shared__ bool goes_on;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const GridBarrier barrier{args.words, gridDim.x};
    // No log: the port reports it.
    const device::Patience patience{args.patience_nanoseconds, nullptr, nullptr, 0, 0};
    const auto verdict = barrier.come(blockIdx.x, step, patience, [&] {
      return !is_last_of_pass || *static_cast<volatile unsigned*>(args.again) != 0;
    });
    if (verdict == GridBarrier::Verdict::overdue) {
      const unsigned missing = barrier.first_missing(step);
      report(port, LaunchStatus::barrier_overdue, missing < gridDim.x ? missing + 1 : 0);
    }
    goes_on = verdict == GridBarrier::Verdict::go_on;
  }
  __syncthreads();
  return goes_on;
}

template <class K>
__device__ void run_step(const PersistentStep& step, const std::byte* code) {
  const typename K::Args args = *reinterpret_cast<const typename K::Args*>(code + step.args_offset);
  const std::uint64_t count = step.blocks.count();
  for (std::uint64_t block = blockIdx.x; block < count; block += gridDim.x) {
    Thread thread(Dim3{static_cast<unsigned>(block % step.blocks.x),
                       static_cast<unsigned>(block / step.blocks.x % step.blocks.y),
                       static_cast<unsigned>(block / step.blocks.x / step.blocks.y)},
                  step.blocks);
    run_on_device<K>(thread, args);
  }
}

template <class... K>
__global__ void persistent_kernel(const __grid_constant__ PersistentArgs args,
                                  const __grid_constant__ LaunchPort port) {
  const auto* steps = reinterpret_cast<const PersistentStep*>(args.code);
  unsigned steps_done = 0;
  PassRecorder recorder(args, Thread().is_first());
  for (;;) {
    recorder.begin_pass();
    for (unsigned at = 0; at < args.step_count; ++at) {
      const PersistentStep step = steps[at];
      unsigned index = 0;
      recorder.begin(step);
      ((index++ == step.kernel ? run_step<K>(step, args.code) : void()), ...);
      const bool is_last = at + 1 == args.step_count;
      const bool goes_on = pass_barrier(args, port, ++steps_done, is_last);
      recorder.end(step);
      if (is_last || !goes_on) recorder.end_pass();
      if (!goes_on) return;
    }
  }
}
#endif

template <class... K>
void run_persistent_on_host(HostFrame& frame, const Grid& grid, const void* raw) {
  const auto& args = *static_cast<const PersistentArgs*>(raw);
  const auto* steps = reinterpret_cast<const PersistentStep*>(args.code);
  PassRecorder recorder(args, true);
  do {
    recorder.begin_pass();
    for (unsigned at = 0; at < args.step_count; ++at) {
      const PersistentStep& step = steps[at];
      const Grid step_grid{step.blocks, grid.threads};
      unsigned index = 0;
      recorder.begin(step);
      ((index++ == step.kernel ? run_on_host<K>(frame, step_grid, args.code + step.args_offset)
                               : void()),
       ...);
      recorder.end(step);
    }
    recorder.end_pass();
  } while (*static_cast<volatile unsigned*>(args.again) != 0);
}

template <bool kCuda, class... K>
const void* persistent_entry() {
  if constexpr (kCuda) {
#if defined(__CUDACC__)
    return reinterpret_cast<const void*>(&persistent_kernel<K...>);
#endif
  }
  return nullptr;
}

}  // namespace detail

/// Several kernels compiled into one; made by `make_persistent`. A cheap value: copies share the
/// kernel, which lives as long as they, the loops made with them and the launches of those.
class PersistentProgram {
 public:
  /// How long blocks wait for the last one between two steps. Then the loop ends, and the next
  /// `synchronize` throws LaunchRefused, which names the loop and the block that did not come.
  std::chrono::nanoseconds patience = std::chrono::seconds(60);

 private:
  friend class Loop;
  template <class... K>
  friend PersistentProgram make_persistent();
  explicit PersistentProgram(detail::PersistentParts parts)
      : parts_(std::make_shared<const detail::PersistentParts>(std::move(parts))) {}
  std::shared_ptr<const detail::PersistentParts> parts_;
};

/// The persistent form of kernels `K...`, each with a body that takes a plain Thread.
template <class... K>
PersistentProgram make_persistent() {
  static_assert((std::is_same_v<detail::ThreadOf<K>, Thread> && ...),
                "a kernel that launches or spawns cannot be part of a persistent kernel");
  KernelTraits traits;
  traits.is_cooperative = true;
  traits.has_port = true;
  traits.blocks_wait = true;
  return PersistentProgram(
      {{"persistent", sizeof(detail::PersistentArgs), traits, &detail::run_persistent_on_host<K...>,
        detail::persistent_entry<kCompilesCuda, K...>(), [](const void*) { return Cost{}; }},
       {&detail::info_of<K, kCompilesCuda>()...}});
}

}  // namespace attacca
