// launch_kernels.cpp: the kernels of launch_kernels.hpp. Compiled by nvcc in a CUDA build.
#include "claims/launch_kernels.hpp"

#include <atomic>

namespace bench::claims {

using attacca::Cost;
using attacca::LaunchingThread;
using attacca::Thread;

namespace {

struct Step {
  static constexpr const char* name = "step";
  static constexpr bool waits = true;
  using Args = StepArgs;
  static Cost cost(const Args& a) { return {.flops = 2.0 * a.turns, .bytes = sizeof(Trace)}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    t.wait_for_producers();
    if (!t.is_first()) return;
    const std::int64_t start = now_ns();
    Trace& trace = *a.trace;
    trace.number = turned(trace.number, a.turns);
    const std::int64_t end = now_ns();
    if (trace.steps != 0) trace.gap_ns[a.place] += start - trace.last_end;
    trace.busy_ns += end - start;
    trace.last_end = end;
    ++trace.steps;
  }
};

/// Raises a flag that a thread of the host polls.
ATTACCA_HD void raise(unsigned* flag) {
#if defined(__CUDA_ARCH__)
  __nv_atomic_store_n(flag, 1u, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM);
#else
  std::atomic_ref<unsigned>(*flag).store(1, std::memory_order_relaxed);
#endif
}

struct Mark {
  static constexpr const char* name = "mark";
  using Args = MarkArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 8}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    if (a.started) *a.started = now_ns();
    if (a.flag) raise(a.flag);
    ++*a.cell;
    if (a.ended) *a.ended = now_ns();
  }
};

struct LaunchGraph {
  static constexpr const char* name = "launch_graph";
  using Args = LaunchArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    if (t.is_first()) *a.at = now_ns();
    t.launch(a.graph, a.mode);
  }
};

struct Decide {
  static constexpr const char* name = "decide";
  using Args = DecideArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 8}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.choice.set((*a.turn)++ % a.choices);
  }
};

struct Tick {
  static constexpr const char* name = "tick";
  static constexpr unsigned kReadings = 1 << 16;
  using Args = TickArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    std::int64_t shortest = 0;
    std::int64_t last = now_ns();
    for (unsigned reading = 0; reading < kReadings; ++reading) {
      const std::int64_t now = now_ns();
      if (now != last && (shortest == 0 || now - last < shortest)) shortest = now - last;
      last = now;
    }
    *a.ns = shortest;
  }
};

}  // namespace

const attacca::Kernel<StepArgs> step = attacca::make_kernel<Step>();
const attacca::Kernel<MarkArgs> mark = attacca::make_kernel<Mark>();
const attacca::Kernel<LaunchArgs> launch_graph = attacca::make_kernel<LaunchGraph>();
const attacca::Kernel<DecideArgs> decide = attacca::make_kernel<Decide>();
const attacca::Kernel<TickArgs> tick = attacca::make_kernel<Tick>();

}  // namespace bench::claims
