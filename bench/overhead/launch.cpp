// launch.cpp: the host time of a launch: the call alone, and with the wait for its end.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/core.h>

#include "chain.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA

constexpr double kGateMicroseconds = 0.2;

void launch(Run& run) {
  Gpu gpu(run.device);
  for (const unsigned nodes : {1u, 100u, 500u}) {
    const ChainOf of{nodes, gpu.cells.data()};
    attacca::Exec exec = Chain(gpu.device, of).graph.instantiate();
    const RawChain raw_chain(of);
    const RawExec raw_exec = instantiate(raw_chain.graph);

    // Few enough launches that the queue does not fill; then a launch would wait for the device.
    const int batch = nodes == 1 ? 50 : nodes == 100 ? 20 : 10;
    const auto call = [&](auto launch_one) {
      return [&gpu, batch, launch_one] {
        const double sum = microseconds([&] {
          for (int at = 0; at < batch; ++at) launch_one();
        });
        gpu.synchronize();
        return sum / batch;
      };
    };
    const auto calls = run.interleave(
        fmt::format("calls, {} nodes", nodes), 301,
        {call([&] { exec.launch(gpu.stream); }), call([&] { gpu.launch(raw_exec); })});
    const auto wait_for = [&] {
      return microseconds([&] {
        exec.launch(gpu.stream);
        gpu.stream.synchronize();
      });
    };
    const auto wait_for_raw = [&] {
      return microseconds([&] {
        gpu.launch(raw_exec);
        gpu.synchronize();
      });
    };
    const auto waits = run.interleave(fmt::format("launch and synchronize, {} nodes", nodes), 301,
                                      {wait_for, wait_for_raw});
    Row row = compared("launch", {{"nodes", nodes}}, calls[0], calls[1]);
    row.limit = calls[1].median + kGateMicroseconds;
    run.add(std::move(row));
    run.add(compared("launch and synchronize", {{"nodes", nodes}}, waits[0], waits[1]));
  }
}

#else
constexpr auto launch = kNoRun;
#endif

const Registered registered{{"overhead-launch",
                             "what does Exec::launch add to the host time of cudaGraphLaunch?",
                             Needs::cuda, launch, "it measures calls of CUDA"}};

}  // namespace

}  // namespace bench
