// roofs.cpp: measures the roofs. On the host threads move memory and compute; on a GPU the probe
// kernels do. Costs come from graphs of tiny kernels: of two lengths, so that what a launch costs
// and what a node costs come apart, and of several widths.
#include "roofline/roofs.hpp"

#include <attacca/exec.hpp>
#include <attacca/l2.hpp>
#include <attacca/memory.hpp>

#include <algorithm>
#include <functional>

#include "core/clock.hpp"
#include "instruments/bandwidth.hpp"
#include "instruments/gpu_driver.hpp"
#include "instruments/machine.hpp"
#include "instruments/multiply_add.hpp"
#include "loop/costs.hpp"
#include "roofline/graph_clock.hpp"
#include "roofline/probes.hpp"
#if ATTACCA_WITH_CUDA
#include "roofline/sm90_matrix.hpp"
#endif

namespace attacca {

namespace roofline {

namespace {

constexpr int kPasses = 9;
constexpr std::size_t kMostBytes = std::size_t{4} << 30;
constexpr unsigned kFewNodes = 16;
constexpr unsigned kManyNodes = 144;
constexpr unsigned kForkNodes = 512;  // about, in a graph of forks
constexpr unsigned kLeastForks = 4;

/// `work` of what a launch enqueues, per second; the best of a few passes.
double best_rate(const Device& device, double work, const std::function<void(StreamRef)>& launch) {
  const Stream stream(device);
  const Event start(device, Event::Timing::on), end(device, Event::Timing::on);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    stream.record(start);
    launch(stream);
    stream.record(end);
    stream.synchronize();
    if (pass > 0) best = std::max(best, work / end.since(start).count());
  }
  return best;
}

/// The best of a few tries, because other programs use the host's cores too. Fewer where one takes
/// long.
double best_of_tries(double (*rate)(unsigned), unsigned threads) {
  constexpr int kTries = 4;
  constexpr std::int64_t kPatienceNs = 500'000'000;
  const std::int64_t start = now_ns();
  double best = rate(threads);
  for (int attempt = 1; attempt < kTries && now_ns() - start < kPatienceNs; ++attempt)
    best = std::max(best, rate(threads));
  return best;
}

double gpu_copy_bandwidth(const Device& device) {
  const Buffer<Quad> memory(device, std::min(kMostBytes, device.bytes_free() / 2) / sizeof(Quad));
  const std::uint64_t half = memory.size() / 2;
  const CopyArgs args{memory.data(), memory.data() + half, half};
  return best_rate(device, copy_memory().cost(args).bytes, [&](StreamRef stream) {
    stream.kernel(copy_memory(), probe_grid(device.processors(), true), args);
  });
}

double gpu_cache_bandwidth(const Device& device) {
  constexpr std::size_t kUsualBytes = std::size_t{32} << 20;
  constexpr unsigned kRounds = 64;
  const std::size_t cache = l2_cache(device).bytes;
  const Buffer<Quad> memory(device, (cache != 0 ? cache : kUsualBytes) / 4 / sizeof(Quad));
  const Buffer<std::uint32_t> seen(device, 1);
  const ReadArgs args{memory.data(), memory.size(), seen.data(), kRounds};
  return best_rate(device, read_memory().cost(args).bytes, [&](StreamRef stream) {
    stream.kernel(read_memory(), probe_grid(device.processors(), true), args);
  });
}

double gpu_fp32_rate(const Device& device) {
  constexpr unsigned kRounds = 16384;
  const Buffer<float> out(device, 1);
  const Grid grid = probe_grid(device.processors(), true);
  const MultiplyAddArgs args{out.data(), kRounds, multiply_add_flops(grid, kRounds, true)};
  return best_rate(device, args.flops,
                   [&](StreamRef stream) { stream.kernel(multiply_add(), grid, args); });
}

#if ATTACCA_WITH_CUDA
/// As `best_rate`, but when the device has been busy for a while and its clocks have settled at
/// what its power allows: the median of a few passes.
double settled_rate(const Device& device, double work,
                    const std::function<void(StreamRef)>& launch) {
  constexpr std::int64_t kBusyNs = 300'000'000;
  const Stream stream(device);
  const Event start(device, Event::Timing::on), end(device, Event::Timing::on);
  std::vector<double> rates;
  const std::int64_t began = now_ns();
  while (now_ns() - began < kBusyNs || rates.size() < kPasses) {
    stream.record(start);
    launch(stream);
    stream.record(end);
    stream.synchronize();
    rates.push_back(work / end.since(start).count());
  }
  std::sort(rates.end() - kPasses, rates.end());
  return rates[rates.size() - 1 - kPasses / 2];
}
#endif

double gpu_matrix_rate([[maybe_unused]] const Device& device,
                       [[maybe_unused]] Arithmetic arithmetic) {
#if ATTACCA_WITH_CUDA
  if (device.compute_capability() != 90) return 0;
  const Buffer<float> out(device, 1);
  const double flops = launch_sm90_matrix(Stream(device), arithmetic, out.data());
  return settled_rate(
      device, flops, [&](StreamRef stream) { launch_sm90_matrix(stream, arithmetic, out.data()); });
#else
  return 0;
#endif
}

/// Graphs of tiny kernels. All read one place and write places of their own, as real kernels do:
/// the end of one waits for what it wrote.
class TinyGraphs {
 public:
  explicit TinyGraphs(const Device& device) : device_(device), memory_(device, kMostTiny + 1) {}

  Graph chain(unsigned nodes, EdgeKind edges = EdgeKind::full) const {
    return tiny_chain(device_, memory_.data(), nodes, edges);
  }
  /// A node, `width` behind it side by side, a node behind them all, and so on.
  Graph forks(unsigned width, unsigned forks) const {
    Graph graph(device_, "forks");
    unsigned count = 0;
    Node last = tiny(graph, count++);
    for (unsigned at = 0; at < forks; ++at) {
      std::vector<Node> branches;
      for (unsigned branch = 0; branch < width; ++branch)
        branches.push_back(Node(tiny(graph, count++).after(last)));
      last = tiny(graph, count++).after(branches);
    }
    return graph;
  }
  /// Without edges.
  Graph roots(unsigned count) const {
    Graph graph(device_, "roots");
    for (unsigned at = 0; at < count; ++at) tiny(graph, at);
    return graph;
  }

 private:
  static constexpr unsigned kMostTiny = 2 * kForkNodes;
  KernelNode<TinyArgs> tiny(Graph& graph, unsigned at) const {
    return graph.kernel(copy_one(), kTinyGrid, {memory_.data(), memory_.data() + at + 1});
  }

  Device device_;
  Buffer<Quad> memory_;
};

/// What one more of something costs. `time_of` times so many.
double each(unsigned few, unsigned many, const std::function<double(unsigned)>& time_of) {
  const double less = time_of(few);
  return std::max(0.0, time_of(many) - less) / (many - few);
}

double median_time(const std::vector<NodeTime>& nodes) {
  std::vector<double> times;
  for (const NodeTime& node : nodes) times.push_back(node.time_us);
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() / 2];
}

void measure_costs(const Device& device, Roofs& roofs) {
  const std::unique_ptr<GraphClock> clock = clock_of(device);
  const TinyGraphs graphs(device);
  const auto each_node = [](const std::function<double(unsigned)>& time_of) {
    return each(kFewNodes, kManyNodes, time_of);
  };
  const auto persistent = [&](unsigned nodes) {
    return clock->persistent(graphs.chain(nodes), tiny_program());
  };
  roofs.node_us = each_node([&](unsigned nodes) { return clock->graph(graphs.chain(nodes)); });
  roofs.early_node_us = each_node(
      [&](unsigned nodes) { return clock->graph(graphs.chain(nodes, EdgeKind::programmatic)); });
  for (std::size_t at = 0; at < kForkWidths.size(); ++at) {
    const unsigned width = kForkWidths[at];
    const unsigned forks = std::max(kLeastForks, kForkNodes / (width + 1));
    const double fork =
        each(1, forks, [&](unsigned count) { return clock->graph(graphs.forks(width, count)); });
    roofs.branch_us[at] = std::max(0.0, fork - 2 * roofs.node_us) / (width - 1);
    roofs.root_us[at] =
        each(1, width, [&](unsigned count) { return clock->graph(graphs.roots(count)); });
  }
  roofs.graph_us = std::max(0.0, clock->graph(graphs.chain(1)) - roofs.node_us);
  roofs.step_us = each_node(persistent);
  roofs.persistent_us = std::max(0.0, persistent(1) - roofs.step_us);
  roofs.launch_us = clock->stream(graphs.chain(kManyNodes)) / kManyNodes;
  roofs.tiny_us = std::min(median_time(clock->nodes(graphs.chain(kManyNodes))), roofs.node_us);
  roofs.barrier_us = loop::cost_of(device, LoopForm::persistent_kernel).per_large_node;
  roofs.device_launch_us = loop::cost_of(device, LoopForm::self_relaunch).per_pass;
}

}  // namespace

double read_bandwidth(const Device& device) {
  if (!device.is_cuda()) return best_of_tries(instruments::read_bandwidth, device.processors());
  const Buffer<Quad> memory(device, std::min(kMostBytes, device.bytes_free() / 2) / sizeof(Quad));
  const Buffer<std::uint32_t> seen(device, 1);
  const ReadArgs args{memory.data(), memory.size(), seen.data()};
  return best_rate(device, read_memory().cost(args).bytes, [&](StreamRef stream) {
    stream.kernel(read_memory(), probe_grid(device.processors(), true), args);
  });
}

std::string hardware_name(const Device& device) {
  if (device.is_cuda()) {
    std::vector<instruments::Gpu> gpus;
    instruments::ask_driver(gpus);
    const auto index = static_cast<std::size_t>(std::stoi(device.name().substr(5)));
    return index < gpus.size() ? gpus[index].name : device.name();
  }
  const unsigned threads = device.processors();
  return instruments::describe_cpu().model + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

}  // namespace roofline

double Roofs::flops_of(Arithmetic arithmetic) const {
  const double rate = flops[static_cast<std::size_t>(arithmetic)];
  return rate > 0 ? rate : flops[static_cast<std::size_t>(Arithmetic::fp32)];
}

double at_width(const ByWidth& us, std::size_t width) {
  std::size_t upper = 1;
  while (upper + 1 < kForkWidths.size() && kForkWidths[upper] < width) ++upper;
  const double low = kForkWidths[upper - 1], high = kForkWidths[upper];
  const double share = (std::clamp(static_cast<double>(width), low, high) - low) / (high - low);
  return us[upper - 1] + share * (us[upper] - us[upper - 1]);
}

Roofs measure_roofs(const Device& device, const RoofProgress& progress) {
  using namespace roofline;
  Roofs roofs;
  roofs.device = hardware_name(device);
  const bool is_cuda = device.is_cuda();
  const unsigned threads = device.processors();
  const auto at = [](Arithmetic arithmetic) { return static_cast<std::size_t>(arithmetic); };
  const std::pair<const char*, std::function<void()>> tasks[] = {
      {"reading memory", [&] { roofs.read = roofline::read_bandwidth(device); }},
      {"copying memory",
       [&] {
         roofs.copy = is_cuda ? gpu_copy_bandwidth(device)
                              : best_of_tries(instruments::copy_bandwidth, threads);
       }},
      {"reading cache",
       [&] {
         roofs.cache = is_cuda ? gpu_cache_bandwidth(device)
                               : best_of_tries(instruments::cache_bandwidth, threads);
       }},
      {"multiplying in fp32",
       [&] {
         roofs.flops[at(Arithmetic::fp32)] =
             is_cuda ? gpu_fp32_rate(device)
                     : 2 * best_of_tries(instruments::multiply_add_rate, threads);
       }},
      {"multiplying in bf16 and fp8",
       [&] {
         for (const Arithmetic arithmetic : {Arithmetic::bf16, Arithmetic::fp8})
           roofs.flops[at(arithmetic)] = is_cuda ? gpu_matrix_rate(device, arithmetic) : 0;
       }},
      {"starting tiny kernels", [&] { measure_costs(device, roofs); }},
  };
  unsigned done = 0;
  for (const auto& [what, work] : tasks) {
    if (progress) progress(what, done, static_cast<unsigned>(std::size(tasks)));
    work();
    ++done;
  }
  return roofs;
}

}  // namespace attacca
