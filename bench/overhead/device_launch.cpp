// device_launch.cpp: the time from a launch on the host, through a graph that launches another one,
// to the end of that.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include "chain.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA

using attacca::LaunchMode;

void measure(Run& run, Gpu& gpu, const char* name, LaunchMode mode) {
  const ChainOf of{1, gpu.cells.data()};
  const attacca::DeviceExec child = Chain(gpu.device, of).graph.instantiate_for_device();
  attacca::Graph graph(gpu.device, "parent");
  graph.kernel(kernels::start, kSmallGrid, {child.handle(), mode});
  attacca::Exec parent = graph.instantiate();

  const RawChain raw_chain(of);
  const RawExec raw_child = instantiate(raw_chain.graph, cudaGraphInstantiateFlagDeviceLaunch);
  check(cudaGraphUpload(raw_child.get(), gpu.native));
  const RawGraph raw_graph = make_raw_graph();
  kernels::StartArgs args{{raw_child.get()}, mode};
  void* pointers[] = {&args};
  add_kernel(raw_graph.get(), nullptr, kernels::raw.start, pointers);
  const RawExec raw_parent = instantiate(raw_graph);
  gpu.synchronize();

  unsigned launches = 0;
  const auto ours = [&] {
    ++launches;
    return microseconds([&] {
      parent.launch(gpu.stream);
      gpu.stream.synchronize();
    });
  };
  const auto theirs = [&] {
    ++launches;
    return microseconds([&] {
      gpu.launch(raw_parent);
      gpu.synchronize();
    });
  };
  const auto times = run.interleave(name, 501, {ours, theirs});
  gpu.expect_touches(launches);
  run.add(compared(name, {}, times[0], times[1]));
}

void device_launch(Run& run) {
  Gpu gpu(run.device);
  measure(run, gpu, "tail", LaunchMode::tail);
  measure(run, gpu, "fire-and-forget", LaunchMode::fire_and_forget);
  measure(run, gpu, "sibling", LaunchMode::sibling);
}

#else
constexpr auto device_launch = kNoRun;
#endif

const Registered registered{{"overhead-device-launch",
                             "how long from a launch on the host, through a graph that launches "
                             "another on the device, to the end of both?",
                             Needs::cuda, device_launch, "it measures calls of CUDA"}};

}  // namespace

}  // namespace bench
