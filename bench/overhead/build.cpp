// build.cpp: the host time to build and instantiate a graph, and to destroy it.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/core.h>

#include <optional>

#include "chain.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA

constexpr double kGate = 1.2;
constexpr double kSymbolGate =
    1.5;  // times the same graph in attacca without the condition or memory

struct Ours {
  Ours(const attacca::Device& device, const ChainOf& of)
      : chain(device, of), exec(chain.graph.instantiate()) {}
  Chain chain;
  attacca::Exec exec;
};

struct Theirs {
  explicit Theirs(const ChainOf& of) : chain(of), exec(instantiate(chain.graph)) {}
  RawChain chain;
  RawExec exec;
};

/// The same chain with a condition or with its own memory.
void build_with(Run& run, const Gpu& gpu, Extra extra) {
  constexpr unsigned kNodes = 500;
  const ChainOf plain{kNodes, gpu.cells.data()};
  ChainOf of = plain;
  of.extra = extra;
  const auto ours = [&](const ChainOf& chain) {
    std::optional<Ours> made;
    return microseconds([&] { made.emplace(gpu.device, chain); });
  };
  const auto theirs = [&] {
    std::optional<Theirs> made;
    return microseconds([&] { made.emplace(of); });
  };
  const std::string name = fmt::format("build and instantiate, the graph has {}", name_of(extra));
  const auto times =
      run.interleave(name, 51, {[&] { return ours(of); }, theirs, [&] { return ours(plain); }});
  Row row = compared(name, {{"nodes", kNodes}}, times[0], times[1]);
  row.limit = times[2].median * kSymbolGate;
  run.add(std::move(row));
}

void build(Run& run) {
  Gpu gpu(run.device);
  for (const unsigned nodes : {100u, 500u}) {
    const ChainOf of{nodes, gpu.cells.data()};
    std::optional<Ours> ours;
    std::optional<Theirs> theirs;
    std::vector<double> our_destroys;
    std::vector<double> their_destroys;
    const auto build_ours = [&] {
      const double time = microseconds([&] { ours.emplace(gpu.device, of); });
      our_destroys.push_back(microseconds([&] { ours.reset(); }));
      return time;
    };
    const auto build_theirs = [&] {
      const double time = microseconds([&] { theirs.emplace(of); });
      their_destroys.push_back(microseconds([&] { theirs.reset(); }));
      return time;
    };
    const auto builds = run.interleave(fmt::format("{} nodes", nodes), nodes == 100 ? 201 : 51,
                                       {build_ours, build_theirs});
    Row row = compared("build and instantiate", {{"nodes", nodes}}, builds[0], builds[1]);
    row.limit = builds[1].median * kGate;
    run.add(std::move(row));
    run.add(compared("destroy", {{"nodes", nodes}}, summarize(our_destroys),
                     summarize(their_destroys)));
  }
  for (const Extra extra : {Extra::allocation, Extra::condition}) build_with(run, gpu, extra);
}

#else
constexpr auto build = kNoRun;
#endif

const Registered registered{{"overhead-build",
                             "what does describing a graph as data first add to building it?",
                             Needs::cuda, build, "it measures calls of CUDA"}};

}  // namespace

}  // namespace bench
