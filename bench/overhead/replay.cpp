// replay.cpp: the device time of replaying a graph of small kernels, in which every gap counts.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/core.h>

#include "chain.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA

using attacca::EdgeKind;

constexpr double kGate = 1.02;
constexpr int kReplays = 20;
// Measured on an H200; see docs/benchmarks.md.
constexpr double kFullEdgeMicroseconds = 0.75;
constexpr double kProgrammaticEdgeMicroseconds = 0.50;

void replay(Run& run) {
  Gpu gpu(run.device);
  for (const EdgeKind edges : {EdgeKind::full, EdgeKind::programmatic})
    for (const unsigned nodes : {100u, 500u}) {
      const ChainOf of{nodes, gpu.cells.data(), edges};
      const char* kind = of.is_programmatic() ? "programmatic" : "full";
      attacca::Exec exec = Chain(gpu.device, of).graph.instantiate();
      const RawChain raw_chain(of);
      const RawExec raw_exec = instantiate(raw_chain.graph);

      const auto back_to_back = [&](auto launch_one) {
        return [&gpu, launch_one] {
          return gpu.device_microseconds([&] {
            for (int at = 0; at < kReplays; ++at) launch_one();
          }) / kReplays;
        };
      };
      const auto times = run.interleave(fmt::format("{} nodes, {} edges", nodes, kind), 101,
                                        {back_to_back([&] { exec.launch(gpu.stream); }),
                                         back_to_back([&] { gpu.launch(raw_exec); })});
      gpu.stream.synchronize();
      Row row = compared("replay", {{"nodes", nodes}, {"edges", kind}}, times[0], times[1]);
      row.floor =
          nodes * (of.is_programmatic() ? kProgrammaticEdgeMicroseconds : kFullEdgeMicroseconds);
      row.limit = times[1].median * kGate;
      run.add(std::move(row));
    }
}

#else
constexpr auto replay = kNoRun;
#endif

const Registered registered{{"overhead-replay",
                             "does a replayed graph run as fast as the same graph built by hand?",
                             Needs::cuda, replay, "it measures calls of CUDA"}};

}  // namespace

}  // namespace bench
