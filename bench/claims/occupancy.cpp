// occupancy.cpp: what a launch loses if it does not fill the GPU: grids of a few blocks, partial
// waves, and SMs with few blocks to switch between.
#include <fmt/core.h>

#include "harness.hpp"
#if ATTACCA_WITH_CUDA
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>
#include <attacca/occupancy.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "claims/occupancy.hpp"
#include "core/counted.hpp"
#include "raw.hpp"
#endif

namespace bench {

namespace {

constexpr const char* kQuestion =
    "what does a launch lose that does not fill the GPU: few blocks, a last wave that is not full, "
    "few blocks per SM?";
constexpr const char* kWhyNot =
    "a worker thread runs one block at a time and takes the next when it is done: there is nothing "
    "to fill but the workers";

#if ATTACCA_WITH_CUDA

using attacca::Dim3;
using attacca::Grid;
using attacca::Occupancy;

constexpr unsigned kTurns = 3000;  // some 50 us, a hundred times what a launch costs
constexpr unsigned kScrambleThreads = 128;
constexpr unsigned kReadThreads = 256;
constexpr int kSamples = 21;
// 2.5 waves of the largest GPU are a third of it.
constexpr std::size_t kMostResults = std::size_t{1} << 21;

std::string grid_name(const Occupancy& fit) {
  return attacca::counted(fit.residency.blocks_per_processor, "block") + " per SM";
}

/// One launch as a graph, which asks for the shared memory a grid needs.
class Launch {
 public:
  template <class Args>
  Launch(Gpu& gpu, const attacca::Kernel<Args>& kernel, const Grid& grid, const Args& args)
      : gpu_(gpu), exec_(make(gpu, kernel, grid, args)) {}
  double device_microseconds() {
    return gpu_.device_microseconds([&] { exec_.launch(gpu_.stream); });
  }

 private:
  template <class Args>
  static attacca::Exec make(Gpu& gpu, const attacca::Kernel<Args>& kernel, const Grid& grid,
                            const Args& args) {
    attacca::Graph graph(gpu.device);
    graph.kernel(kernel, grid, args);
    return graph.instantiate();
  }
  Gpu& gpu_;
  attacca::Exec exec_;
};

void expect_scrambled(const attacca::Buffer<std::uint32_t>& out, std::uint64_t count) {
  const std::vector<std::uint32_t> values = out.read();
  for (std::uint64_t at = 0; at < count; at += 997)
    if (values[at] != scrambled(static_cast<std::uint32_t>(at) + 1, kTurns))
      throw attacca::Error(fmt::format("scramble left {} at {}", values[at], at));
  if (count < values.size() && values[count] != 0xffffffffu)
    throw attacca::Error(fmt::format("scramble wrote past its {} results", count));
}

/// Median time by number of blocks, for grids around whole waves.
std::map<std::uint64_t, double> waves(Run& run, Gpu& gpu, unsigned shared_bytes,
                                      const attacca::Buffer<std::uint32_t>& out) {
  const auto grid_of = [&](std::uint64_t blocks) {
    return Grid{Dim3{static_cast<unsigned>(blocks)}, Dim3{kScrambleThreads}, shared_bytes};
  };
  const Occupancy one = attacca::occupancy(gpu.device, occupancy::scramble, grid_of(1));
  const std::uint64_t wave = one.resident_blocks;
  const std::uint64_t processors = one.residency.processors;
  std::vector<std::uint64_t> counts{processors / 4, processors, wave, wave + 1};
  if (!run.is_quick())
    counts.insert(counts.end(), {1, processors / 2, processors + 1, 2 * processors, 4 * processors,
                                 8 * processors, wave / 2, wave + wave / 4, wave + wave / 2,
                                 2 * wave, 2 * wave + 1, 2 * wave + wave / 2});
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  counts.erase(std::remove_if(counts.begin(), counts.end(),
                              [&](std::uint64_t blocks) {
                                return blocks == 0 || blocks > 5 * wave / 2 ||
                                       blocks * kScrambleThreads > out.size();
                              }),
               counts.end());

  std::vector<Launch> launches;
  launches.reserve(counts.size());
  for (const std::uint64_t blocks : counts) {
    gpu.stream.fill(out.data(), 0xff, out.bytes());
    launches.emplace_back(gpu, occupancy::scramble, grid_of(blocks),
                          occupancy::ScrambleArgs{out.data(), kTurns});
    launches.back().device_microseconds();
    expect_scrambled(out, blocks * kScrambleThreads);
  }
  std::vector<std::function<double()>> variants;
  for (Launch& launch : launches)
    variants.push_back([&launch] { return launch.device_microseconds(); });
  const auto times = run.interleave(grid_name(one), kSamples, variants);

  std::map<std::uint64_t, double> medians;
  for (std::size_t at = 0; at < counts.size(); ++at) medians[counts[at]] = times[at].median;
  for (std::size_t at = 0; at < counts.size(); ++at) {
    const Occupancy fit = attacca::occupancy(gpu.device, occupancy::scramble, grid_of(counts[at]));
    // The time of as many blocks at the speed of a full wave.
    Row row{grid_name(one),
            {{"blocks", counts[at]}, {"waves", std::round(fit.waves * 1000) / 1000}},
            times[at]};
    row.floor = medians[wave] * fit.waves;
    run.add(std::move(row));
    if (counts[at] == wave + 1) run.note(fit.explain());
  }
  return medians;
}

/// Gigabytes per second by blocks per SM.
std::map<unsigned, double> bandwidth(Run& run, Gpu& gpu,
                                     const attacca::Kernel<occupancy::ReadArgs>& kernel,
                                     const attacca::Buffer<std::uint32_t>& words) {
  const Occupancy one = attacca::occupancy(gpu.device, kernel, Grid{Dim3{1}, Dim3{kReadThreads}});
  const unsigned processors = one.residency.processors;
  const unsigned most = one.residency.blocks_per_processor;
  attacca::Buffer<std::uint64_t> sums(gpu.device, std::size_t{processors} * most * kReadThreads);
  std::vector<unsigned> counts;
  for (unsigned per_processor = 1; per_processor <= most; ++per_processor)
    if (!run.is_quick() || per_processor == 1 || per_processor == most)
      counts.push_back(per_processor);
  std::vector<Launch> launches;
  std::vector<double> bytes;
  launches.reserve(counts.size());
  for (const unsigned per_processor : counts) {
    const std::uint64_t threads = std::uint64_t{processors} * per_processor * kReadThreads;
    const std::uint64_t count = words.size() / (threads * 16) * (threads * 16);
    bytes.push_back(static_cast<double>(count) * sizeof(std::uint32_t));
    gpu.stream.fill(sums.data(), 0xff, sums.bytes());
    launches.emplace_back(gpu, kernel, Grid{Dim3{processors * per_processor}, Dim3{kReadThreads}},
                          occupancy::ReadArgs{words.data(), count, sums.data()});
    launches.back().device_microseconds();
    const std::vector<std::uint64_t> all = sums.read();
    const std::uint64_t sum = std::accumulate(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(threads), std::uint64_t{0});
    if (sum != count * 0x01010101u)
      throw attacca::Error(
          fmt::format("'{}' read a sum of {} from {} words", kernel.info().name, sum, count));
  }
  std::vector<std::function<double()>> variants;
  for (std::size_t at = 0; at < launches.size(); ++at)
    variants.push_back([&, at] { return bytes[at] / launches[at].device_microseconds() / 1000; });
  const auto rates = run.interleave(kernel.info().name, kSamples, variants);
  std::map<unsigned, double> medians;
  for (std::size_t at = 0; at < counts.size(); ++at) {
    Row row{kernel.info().name, {{"blocks per SM", counts[at]}}, rates[at], "GB/s"};
    row.baseline = rates.back().median;
    row.is_rate = true;
    run.add(std::move(row));
    medians[counts[at]] = rates[at].median;
  }
  return medians;
}

void judge_waves(Run& run, const Gpu& gpu, const std::map<std::uint64_t, double>& alone,
                 const std::map<std::uint64_t, double>& many) {
  const unsigned processors = gpu.device.processors();
  const auto step_after = [](const std::map<std::uint64_t, double>& times, std::uint64_t wave) {
    return times.at(wave + 1) / times.at(wave);
  };
  const double few = alone.at(processors / 4);
  const double all = alone.at(processors);
  run.add(Finding{
      "A grid needs at least as many blocks as there are multiprocessors, or some stay idle.",
      "NVIDIA, Optimizing CUDA Part II, https://developer.download.nvidia.com/CUDA/training/"
      "NVIDIA_GPU_Computing_Webinars_Further_CUDA_Optimization.pdf",
      fmt::format("{} blocks take {:.1f} µs and {} take {:.1f}: the small grid does {:.0f}% of the "
                  "work in the same time",
                  processors / 4, few, processors, all, 25 * all / few),
      few > 0.9 * all ? Verdict::held : Verdict::partly});

  const std::uint64_t wave =
      attacca::occupancy(gpu.device, occupancy::scramble, Grid{Dim3{1}, Dim3{kScrambleThreads}})
          .resident_blocks;
  const double lone_step = step_after(alone, processors);
  const double shared_step = step_after(many, wave);
  const auto is_whole = [](double step) { return step > 1.8; };
  run.add(Finding{
      "The last wave takes as long as a full one, however few blocks it has.",
      "NVIDIA, CUDA Pro Tip: Minimize the Tail Effect, "
      "https://developer.nvidia.com/blog/cuda-pro-tip-minimize-the-tail-effect/",
      fmt::format("one block more than a wave: {:.2f} times as long where an SM holds one block; "
                  "{:.2f} times where it holds {} that share it, and the last has it alone",
                  lone_step, shared_step, wave / processors),
      is_whole(lone_step) && is_whole(shared_step)   ? Verdict::held
      : is_whole(lone_step) || is_whole(shared_step) ? Verdict::partly
                                                     : Verdict::failed});
}

void judge_bandwidth(Run& run, const std::map<unsigned, double>& one,
                     const std::map<unsigned, double>& four) {
  const double gain = one.rbegin()->second / one.begin()->second;
  run.add(Finding{"Several blocks per multiprocessor hide the latency of memory.",
                  "CUDA C++ Best Practices Guide, Execution Configuration Optimizations, "
                  "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/",
                  fmt::format("with one load of 16 bytes in flight per thread, {} blocks of {} "
                              "threads per SM read {:.1f} times as fast as one",
                              one.rbegin()->first, kReadThreads, gain),
                  gain > 1.5   ? Verdict::held
                  : gain > 1.1 ? Verdict::partly
                               : Verdict::failed});
  double best = 0;
  for (const auto& [blocks, rate] : four) best = std::max(best, rate);
  const auto enough = std::find_if(four.begin(), four.end(),
                                   [&](const auto& each) { return each.second > 0.97 * best; });
  run.add(
      Finding{"Higher occupancy does not always mean higher performance: above some point more "
              "of it changes nothing.",
              "CUDA C++ Best Practices Guide, Occupancy, "
              "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/",
              fmt::format("with four loads in flight per thread, {} of {} blocks per SM reach "
                          "97% of the best, {:.0f} GB/s",
                          enough->first, four.rbegin()->first, best),
              enough->first < four.rbegin()->first ? Verdict::held : Verdict::failed});
}

void measure_occupancy(Run& run) {
  Gpu gpu(run.device);
  int shared_of_processor = 0;
  check(cudaDeviceGetAttribute(&shared_of_processor, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                               std::stoi(gpu.device.name().substr(5))));
  const attacca::Buffer<std::uint32_t> out(gpu.device, kMostResults);
  // More than half of an SM's shared memory: it holds one such block.
  const auto alone = waves(run, gpu, static_cast<unsigned>(shared_of_processor) * 5 / 8, out);
  const auto many = waves(run, gpu, 0, out);
  judge_waves(run, gpu, alone, many);

  const attacca::Buffer<std::uint32_t> words(
      gpu.device, (run.is_quick() ? std::size_t{64} : std::size_t{256}) << 20);
  gpu.stream.fill(words.data(), 1, words.bytes());
  const auto one = bandwidth(run, gpu, occupancy::read_one_at_a_time, words);
  const auto four = bandwidth(run, gpu, occupancy::read_four_at_a_time, words);
  judge_bandwidth(run, one, four);

  run.add(Plot{.title = "The same work per block: time against waves",
               .x = "waves",
               .x_label = "waves",
               .y_label = "µs",
               .is_log_x = false});
  run.add(Plot{.title = "Reading memory with few blocks per SM",
               .x = "blocks per SM",
               .x_label = "blocks of 256 threads per SM",
               .y_label = "GB/s",
               .is_log_x = false});
}

const Registered registered{{"occupancy", kQuestion, Needs::cuda, measure_occupancy, kWhyNot}};
#else
const Registered registered{{"occupancy", kQuestion, Needs::cuda, kNoRun, kWhyNot}};
#endif

}  // namespace

}  // namespace bench
