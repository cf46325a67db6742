// divergence.cpp: the cost of different paths taken by the lanes of a warp, the warps of a block or
// the blocks, and of a sum over the lanes of a warp.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/core.h>

#include <cmath>
#include <map>

#include "claims/divergence.hpp"
#include "raw.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA
using divergence::Grain;
using divergence::Rounds;
using divergence::Sum;
using divergence::Walk;

constexpr unsigned kWarp = 32;

/// How full the GPU is. A full one is bound by its issue rate, a thin one by the latency of
/// instructions.
struct Load {
  const char* name;
  unsigned blocks_per_sm;
  unsigned threads;
  unsigned turns;   // of a walk
  unsigned rounds;  // of a sum
  unsigned warps_per_sm() const { return blocks_per_sm * threads / kWarp; }
};
constexpr Load kFull{"full", 8, 256, 128, 1024};
constexpr Load kThin{"one warp per scheduler", 1, 128, 1024, 4096};

unsigned sm_count() {
  int index = 0;
  int count = 0;
  check(cudaGetDevice(&index));
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, index));
  return static_cast<unsigned>(count);
}

/// Memory for every thread's result.
struct Output {
  explicit Output(Gpu& gpu) : cells(gpu.device, sm_count() * kFull.blocks_per_sm * kFull.threads) {}
  /// Throws unless the first `count` cells hold what `expected(cell)` says.
  template <class Expected>
  void expect(const std::string& what, unsigned count, Expected expected) const {
    const auto found = cells.read();
    for (unsigned at = 0; at < count; ++at)
      if (found[at] != expected(at))
        throw attacca::Error(fmt::format("{}: thread {} came to {} instead of {}", what, at,
                                         found[at], expected(at)));
  }
  void poison(Gpu& gpu) { check(cudaMemsetAsync(cells.data(), 0xA5, cells.bytes(), gpu.native)); }
  attacca::Buffer<unsigned> cells;
};

// --- paths --------------------------------------------------------------------------------------

const char* name_of(Grain grain) {
  return grain == Grain::lane ? "lanes" : grain == Grain::warp ? "warps" : "blocks";
}

constexpr unsigned kPathCounts[] = {1, 2, 4, 8, 16, divergence::kMostPaths};

/// The result of each path.
std::vector<unsigned> ends_of_walks(unsigned turns) {
  std::vector<unsigned> ends;
  for (unsigned path = 0; path < divergence::kMostPaths; ++path) {
    unsigned place = 1;
    for (unsigned step = 0; step < turns * divergence::kStepsPerTurn; ++step)
      place = place * divergence::factor_of(path) + divergence::summand_of(path);
    ends.push_back(place);
  }
  return ends;
}

void expect_walked(Gpu& gpu, Output& output, const Walk& walk, const std::vector<unsigned>& ends) {
  output.poison(gpu);
  check(divergence::launch_walk(walk, gpu.native));
  gpu.synchronize();
  output.expect("walk", walk.blocks * walk.threads, [&](unsigned thread) {
    const unsigned number = walk.grain == Grain::lane   ? thread % walk.threads % kWarp
                            : walk.grain == Grain::warp ? thread / kWarp
                                                        : thread / walk.threads;
    return ends[number % walk.paths];
  });
}

/// Times of a load relative to one path, by grain and number of paths.
using Slowdowns = std::map<Grain, std::map<unsigned, double>>;

Slowdowns measure_paths(Run& run, Gpu& gpu, Output& output, const Load& load) {
  const std::vector<unsigned> ends = ends_of_walks(load.turns);
  std::vector<Walk> walks;
  for (const Grain grain : {Grain::lane, Grain::warp, Grain::block})
    for (const unsigned paths : kPathCounts)
      walks.push_back({output.cells.data(), grain, paths, load.turns,
                       sm_count() * load.blocks_per_sm, load.threads});
  std::vector<std::function<double()>> samples;
  for (const Walk& walk : walks) {
    expect_walked(gpu, output, walk, ends);
    samples.emplace_back([&] {
      return gpu.device_microseconds([&] { check(divergence::launch_walk(walk, gpu.native)); });
    });
  }
  const auto times = run.interleave(fmt::format("paths, {}", load.name), 21, samples);
  Slowdowns slowdowns;
  for (std::size_t at = 0; at < walks.size(); ++at) {
    const double alone = times[at - at % std::size(kPathCounts)].median;  // with one path
    slowdowns[walks[at].grain][walks[at].paths] = times[at].median / alone;
    run.add(
        Row{.name = fmt::format("{} on different paths, {}", name_of(walks[at].grain), load.name),
            .params = {{"paths", walks[at].paths}},
            .value = times[at],
            .baseline = alone});
  }
  run.add(Plot{.title = fmt::format("Paths taken at once, {}", load.name),
               .x = "paths",
               .x_label = "different paths",
               .y_label = "time over one path",
               .is_log_y = true,
               .rows = {fmt::format("lanes on different paths, {}", load.name),
                        fmt::format("warps on different paths, {}", load.name),
                        fmt::format("blocks on different paths, {}", load.name)},
               .value = Plot::Value::ratio});
  return slowdowns;
}

bool is_near(double value, double wanted) { return std::abs(value / wanted - 1) <= 0.1; }

void judge_paths(Run& run, Slowdowns full, Slowdowns thin) {
  const double full_lanes = full[Grain::lane][32];
  const double thin_lanes = thin[Grain::lane][32];
  const bool is_linear = is_near(full_lanes, 32) && is_near(full[Grain::lane][8], 8);
  const bool is_linear_thin = is_near(thin_lanes, 32) && is_near(thin[Grain::lane][8], 8);
  run.add(Finding{
      "Divergent paths take turns: the time is linear in their number, however full the GPU is.",
      "Characterizing Warp Divergence from Pascal to Blackwell, https://arxiv.org/html/2607.23402",
      fmt::format("32 paths took {:.1f} times as long as one on a full GPU and {:.1f} times with "
                  "one warp per scheduler",
                  full_lanes, thin_lanes),
      is_linear && is_linear_thin   ? Verdict::held
      : is_linear || is_linear_thin ? Verdict::partly
                                    : Verdict::failed});
  run.add(Finding{
      "Two-way divergence costs 2x, eight-way divergence 8x.",
      "Warp-level Throughput, https://factryze.ai/scale-atlas/compute/warp-throughput",
      fmt::format("{:.2f}x and {:.2f}x on a full GPU", full[Grain::lane][2], full[Grain::lane][8]),
      is_near(full[Grain::lane][2], 2) && is_near(full[Grain::lane][8], 8) ? Verdict::held
      : full[Grain::lane][8] > 2                                           ? Verdict::partly
                                                                           : Verdict::failed});
  const double worst = std::max(full[Grain::warp][32], full[Grain::block][32]);
  const double worst_thin = std::max(thin[Grain::warp][32], thin[Grain::block][32]);
  run.add(Finding{
      "Divergence occurs only within a warp: different warps execute independently, whether their "
      "paths are common or not.",
      "CUDA C++ Programming Guide, SIMT Architecture",
      fmt::format("32 paths between warps or blocks took at most {:.2f} times as long as one on a "
                  "full GPU, {:.2f} times with one warp per scheduler",
                  worst, worst_thin),
      worst < 1.05 && worst_thin < 1.05 ? Verdict::held
      : worst < 2 && worst_thin < 2     ? Verdict::partly
                                        : Verdict::failed});
}

// --- sums over lanes ----------------------------------------------------------------------------

const char* name_of(Sum sum) {
  switch (sum) {
    case Sum::shuffle:
      return "__shfl_xor_sync";
    case Sum::redux:
      return "__reduce_add_sync";
    case Sum::tile_32:
      return "tile of 32";
    case Sum::tile_16:
      return "tiles of 16";
    case Sum::tile_8:
      return "tiles of 8";
    case Sum::tile_4:
      return "tiles of 4";
    case Sum::halves_masked:
      return "halves by mask";
    case Sum::halves_branched:
      return "halves in branches";
    case Sum::shared:
      return "shared memory";
  }
  return "";
}

std::vector<unsigned> ends_of_sums(Sum sum, unsigned rounds) {
  const unsigned together = divergence::lanes_of(sum);
  std::vector<unsigned> lanes(kWarp);
  for (unsigned lane = 0; lane < kWarp; ++lane) lanes[lane] = lane;
  for (unsigned round = 0; round < rounds; ++round)
    for (unsigned first = 0; first < kWarp; first += together) {
      unsigned total = 0;
      for (unsigned lane = first; lane < first + together; ++lane) total += lanes[lane];
      for (unsigned lane = first; lane < first + together; ++lane) lanes[lane] = total ^ lane;
    }
  return lanes;
}

/// Nanoseconds that an SM spends on one round of one warp.
std::map<Sum, double> measure_sums(Run& run, Gpu& gpu, Output& output, const Load& load) {
  std::vector<Rounds> all;
  std::vector<std::function<double()>> samples;
  for (unsigned at = 0; at < divergence::kSums; ++at)
    all.push_back({output.cells.data(), static_cast<Sum>(at), load.rounds,
                   sm_count() * load.blocks_per_sm, load.threads});
  for (const Rounds& rounds : all) {
    output.poison(gpu);
    check(divergence::launch_sum(rounds, gpu.native));
    gpu.synchronize();
    const auto ends = ends_of_sums(rounds.sum, rounds.rounds);
    output.expect(name_of(rounds.sum), rounds.blocks * rounds.threads,
                  [&](unsigned thread) { return ends[thread % kWarp]; });
    samples.emplace_back([&] {
      return gpu.device_microseconds([&] { check(divergence::launch_sum(rounds, gpu.native)); });
    });
  }
  const auto times = run.interleave(fmt::format("sums, {}", load.name), 21, samples);
  std::map<Sum, double> values;
  const double per_round = 1000.0 / load.rounds / load.warps_per_sm();
  for (std::size_t at = 0; at < all.size(); ++at) {
    const Summary value = scaled(times[at], per_round);
    values[all[at].sum] = value.median;
    run.add(Row{.name = fmt::format("sum by {}", name_of(all[at].sum)),
                .params = {{"load", load.name}, {"lanes", divergence::lanes_of(all[at].sum)}},
                .value = value,
                .unit = "ns/warp",
                .baseline = values.at(Sum::shuffle)});
  }
  return values;
}

void judge_sums(Run& run, const std::map<Sum, double>& full, const std::map<Sum, double>& thin) {
  const double gain = full.at(Sum::shared) / full.at(Sum::shuffle);
  const double gain_thin = thin.at(Sum::shared) / thin.at(Sum::shuffle);
  const std::string measured = fmt::format(
      "shared memory took {:.2f} times as long on a full GPU, {:.2f} times with one warp per "
      "scheduler; __reduce_add_sync took {:.2f} and {:.2f} of the shuffles' time",
      gain, gain_thin, full.at(Sum::redux) / full.at(Sum::shuffle),
      thin.at(Sum::redux) / thin.at(Sum::shuffle));
  const auto judged = [&](double wanted) {
    return gain >= wanted && gain_thin >= wanted   ? Verdict::held
           : gain >= wanted || gain_thin >= wanted ? Verdict::partly
                                                   : Verdict::failed;
  };
  run.add(Finding{"A warp adds up faster by shuffles than through shared memory.",
                  "Faster Parallel Reductions on Kepler, "
                  "http://devblogs.nvidia.com/parallelforall/faster-parallel-reductions-kepler/",
                  measured, judged(1.02)});
  run.add(Finding{"Shuffles beat a reduction through shared memory by 10 to 20 times.",
                  "Warp Primitives, "
                  "https://fridayswithfaraday.com/posts/cuda-kernel-eng-warp-primitives-shuffles",
                  measured, judged(10)});
  const double tiles = full.at(Sum::tile_16) / full.at(Sum::tile_32);
  const double branches = full.at(Sum::halves_branched) / full.at(Sum::halves_masked);
  run.add(Finding{
      "Two tiles of 16 lanes shuffle at the same time.",
      "NVIDIA developer forum, "
      "https://forums.developer.nvidia.com/t/what-is-the-usage-of-cooperative-group/250865",
      fmt::format(
          "two tiles of 16 took {:.2f} of the time of one of 32 (4 steps instead of 5); the "
          "same halves inside branches took {:.2f} times as long as by mask",
          tiles, branches),
      tiles <= 0.9    ? Verdict::held
      : tiles <= 1.05 ? Verdict::partly
                      : Verdict::failed});
  const double group = full.at(Sum::tile_32) / full.at(Sum::shuffle);
  run.add(Finding{"A cooperative group's tile costs no more than the intrinsics.",
                  "repeated in tutorials; no single source found",
                  fmt::format("a tile of 32 took {:.2f} of the time of __shfl_xor_sync", group),
                  group <= 1.02  ? Verdict::held
                  : group <= 1.2 ? Verdict::partly
                                 : Verdict::failed});
}

void diverge(Run& run) {
  Gpu gpu(run.device);
  Output output(gpu);
  Slowdowns full = measure_paths(run, gpu, output, kFull);
  Slowdowns thin = measure_paths(run, gpu, output, kThin);
  const auto full_sums = measure_sums(run, gpu, output, kFull);
  const auto thin_sums = measure_sums(run, gpu, output, kThin);
  run.note(
      "Paths: the time of a kernel, beside the same with one path. Sums: the time an SM spends "
      "on one sum of one warp, beside __shfl_xor_sync; tiles and halves give several sums.");
  judge_paths(run, std::move(full), std::move(thin));
  judge_sums(run, full_sums, thin_sums);
}
#else
constexpr auto diverge = kNoRun;
#endif

const Registered registered{
    {"divergence", "what do threads pay that take different paths, and lanes that add up a value?",
     Needs::cuda, diverge, "the host has no warps: each thread goes its own way"}};

}  // namespace

}  // namespace bench
