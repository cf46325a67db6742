// launch_kernels.hpp: the kernels of the launch experiments. They record when they start and end,
// so the gaps between them are measured on the device.
#pragma once

#include <attacca/handles.hpp>
#include <attacca/kernel.hpp>
#include <chrono>
#include <cstdint>

namespace bench::claims {

inline constexpr attacca::Grid kOneWarp{{1, 1, 1}, {32, 1, 1}};

/// The time, comparable among all kernels of one device: %globaltimer on a GPU.
ATTACCA_HD inline std::int64_t now_ns() {
#if defined(__CUDA_ARCH__)
  std::int64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
#else
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
#endif
}

/// `turns` steps of a random number generator, each of which needs the one before.
ATTACCA_HD inline unsigned turned(unsigned number, unsigned turns) {
  for (unsigned turn = 0; turn < turns; ++turn) {
    number = number * 1664525u + 1013904223u;
    asm volatile("" : "+r"(number));  // keeps each step, wherever this is inlined
  }
  return number;
}

/// The results of dependent steps.
inline constexpr unsigned kPlaces = 3;
struct Trace {
  unsigned number = 1;  // turned over by each step
  unsigned steps = 0;
  std::int64_t last_end = 0;
  std::int64_t busy_ns = 0;
  std::int64_t gap_ns[kPlaces] = {};  // before a step of that place, since the end of the last one
};
struct StepArgs {
  Trace* trace;
  unsigned turns;
  unsigned place;
};
/// Turns the number over. Works with programmatic edges: it releases its consumers at once, then
/// waits.
extern const attacca::Kernel<StepArgs> step;

/// Counts itself in `cell` and records the time if asked to.
struct MarkArgs {
  unsigned* cell;
  std::int64_t* started;  // may be null, as the others
  std::int64_t* ended;
  unsigned* flag;  // raised at the start, for a host that polls it
};
extern const attacca::Kernel<MarkArgs> mark;

/// Records the time and launches a graph.
struct LaunchArgs {
  std::int64_t* at;
  attacca::DeviceGraph graph;
  attacca::LaunchMode mode;
};
extern const attacca::Kernel<LaunchArgs> launch_graph;

/// Chooses 0, 1, … `choices` - 1 in turn.
struct DecideArgs {
  attacca::Condition choice;
  unsigned* turn;
  unsigned choices;
};
extern const attacca::Kernel<DecideArgs> decide;

/// The shortest time between two values of the clock.
struct TickArgs {
  std::int64_t* ns;
};
extern const attacca::Kernel<TickArgs> tick;

}  // namespace bench::claims
