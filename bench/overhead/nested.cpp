// nested.cpp: the device time per kernel, spawned by a kernel or launched by the host.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include "nested_kernels.hpp"

#include "raw.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA

using attacca::SpawnMode;

constexpr unsigned kChildren = 100;

void nested(Run& run) {
  Gpu gpu(run.device);
  unsigned* cells = gpu.cells.data();
  unsigned samples = 0;  // each sample touches every cell once
  const auto ours = [&](SpawnMode mode) {
    return [&gpu, &samples, cells, mode] {
      ++samples;
      return gpu.device_microseconds([&] {
        gpu.stream.kernel(kernels::spawn, kSmallGrid, {cells, kChildren, mode});
      }) / kChildren;
    };
  };
  const auto by_hand = [&](SpawnMode mode) {
    return [&gpu, &samples, cells, mode] {
      ++samples;
      kernels::SpawnArgs args{cells, kChildren, mode};
      void* pointers[] = {&args};
      return gpu.device_microseconds([&] {
        check(cudaLaunchKernel(kernels::raw_nested.spawn, dim3(1), dim3(32), pointers, 0,
                               gpu.native));
      }) / kChildren;
    };
  };
  const auto from_host = [&](auto launch_one) {
    return [&gpu, &samples, cells, launch_one] {
      ++samples;
      return gpu.device_microseconds([&] {
        for (unsigned at = 0; at < kChildren; ++at) launch_one(kernels::ChildArgs{cells + at});
      }) / kChildren;
    };
  };
  const auto ours_from_host = [&](const kernels::ChildArgs& args) {
    gpu.stream.kernel(kernels::child, kSmallGrid, args);
  };
  const auto raw_from_host = [&](kernels::ChildArgs args) {
    void* pointers[] = {&args};
    check(cudaLaunchKernel(kernels::raw_nested.child, dim3(1), dim3(32), pointers, 0, gpu.native));
  };
  const auto times = run.interleave(
      "children", 101,
      {ours(SpawnMode::fire_and_forget), ours(SpawnMode::tail), by_hand(SpawnMode::fire_and_forget),
       by_hand(SpawnMode::tail), from_host(ours_from_host), from_host(raw_from_host)});
  gpu.stream.synchronize();
  gpu.expect_touches(samples);
  // The last one, cudaLaunchKernel on the host, is the baseline of the others.
  const char* names[] = {"spawned, fire-and-forget", "spawned, tail",
                         "spawned by hand, fire-and-forget", "spawned by hand, tail",
                         "launched by the host"};
  for (std::size_t at = 0; at < std::size(names); ++at)
    run.add(compared(names[at], {{"children", kChildren}}, times[at], times.back()));
}

#else
constexpr auto nested = kNoRun;
#endif

const Registered registered{{"overhead-nested",
                             "what does a kernel cost when a kernel spawns it, and what when the "
                             "host launches it?",
                             Needs::cuda, nested, "it measures calls of CUDA"}};

}  // namespace

}  // namespace bench
