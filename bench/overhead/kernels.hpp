// kernels.hpp: the kernels that the overhead benchmarks run, each with a hand-written CUDA twin:
// the same work as a plain __global__ function, for graphs made with the raw API.
#pragma once

#include <attacca/handles.hpp>
#include <attacca/kernel.hpp>
#include <attacca/persistent.hpp>

namespace bench::kernels {

/// Adds to a cell from one thread: the least work that can be checked.
struct TouchArgs {
  unsigned* cell;
  unsigned add;
};
extern const attacca::Kernel<TouchArgs> touch;
/// The same between programmatic edges: releases its consumers at once, waits, then adds.
extern const attacca::Kernel<TouchArgs> touch_early;

/// Counts passes of a loop and reports whether there is another; after the last one it starts from
/// zero.
struct CountArgs {
  attacca::Condition again;
  unsigned* passes;
  unsigned limit;
};
extern const attacca::Kernel<CountArgs> count;

/// The same for a graph that relaunches itself.
struct RelaunchArgs {
  unsigned* passes;
  unsigned limit;
};
extern const attacca::Kernel<RelaunchArgs> relaunch;

/// Launches a graph from the device.
struct StartArgs {
  attacca::DeviceGraph graph;
  attacca::LaunchMode mode;
};
extern const attacca::Kernel<StartArgs> start;

/// `touch` and `count` in one kernel that stays on the device.
extern const attacca::PersistentProgram touch_and_count;

/// Turns a number over `turns` times, one after another, and counts itself in `cell`.
struct WorkArgs {
  unsigned* cell;
  unsigned turns;
};
ATTACCA_HD inline void do_work(const WorkArgs& args) {
  unsigned number = args.turns;
  for (unsigned turn = 0; turn < args.turns; ++turn) number = number * 1664525u + 1013904223u;
  asm volatile("" : "+r"(number));  // keeps the loop, whose result is not read
  ++*args.cell;
}
extern const attacca::Kernel<WorkArgs> work;

/// The twins, as cudaGraphAddNode and cudaLaunchKernel take them; null in a host build.
struct RawKernels {
  const void* touch;        // TouchArgs
  const void* touch_early;  // TouchArgs
  const void* count;        // cudaGraphConditionalHandle, unsigned* passes, unsigned limit
  const void* relaunch;     // RelaunchArgs
  const void* count_in;     // unsigned* again, unsigned* passes, unsigned limit
  const void* ask;          // const unsigned* again: relaunches the graph while it is not zero
  const void* start;        // StartArgs
};
extern const RawKernels raw;

}  // namespace bench::kernels
