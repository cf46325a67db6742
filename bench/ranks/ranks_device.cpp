// ranks_device.cpp: all-reduces of two ranks that share a device, in graphs: joined (edges) and, on
// a GPU, through NCCL, against one kernel that does the same by hand. What processes do with each
// other's memory is measured by device_processes.cpp.
#include <fmt/core.h>
#include <attacca/attacca.hpp>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "ranks/exchange_time.hpp"
#include "ranks/ranks_kernels.hpp"

namespace bench {

namespace {

using namespace attacca;

constexpr const char* kEdges = "all-reduce of 2 ranks that share a device against a kernel by hand";
constexpr const char* kNccl = "the same through NCCL";
constexpr int kRanks = 2;
constexpr int kExchanges = 32;  // in a graph, as in a step of a model with 16 layers

/// Samples of the microseconds of one exchange in a graph of kExchanges. `meet` comes before each.
template <class Meet>
std::vector<double> times_of_exchange(const Graph& graph, int launches, int samples,
                                      const Meet& meet) {
  Exec exec = graph.instantiate();
  Stream stream(graph.device());
  const auto launch = [&](int times) {
    for (int at = 0; at < times; ++at) exec.launch(stream);
    stream.synchronize();
  };
  launch(1);
  std::vector<double> times;
  for (int sample = 0; sample < samples; ++sample) {
    meet();
    times.push_back(microseconds([&] { launch(launches); }) / launches / kExchanges);
  }
  return times;
}

double by_hand(const Device& device, std::size_t count, int launches) {
  Buffer<float> a(device, std::vector<float>(count, 0.0f)),
      b(device, std::vector<float>(count, 0.0f));
  Graph graph(device, "sums");
  const Grid grid =
      device.is_cuda() ? Grid::covering(std::min<std::uint64_t>(count, 132 * 1024)) : Grid{};
  std::optional<KernelNode<AddBothArgs>> last;
  for (int at = 0; at < kExchanges; ++at) {
    const auto node = graph.kernel(add_both, grid, {a.data(), b.data(), count});
    if (last) node.after(*last);
    last = node;
  }
  return times_of_exchange(graph, launches, 1, [] {}).front();
}

constexpr double kPutGate = 1.2;       // times kernels by hand
constexpr double kStealingGate = 1.1;  // times a perfect split
constexpr double kHiddenGate = 85;     // % of the hand-off

/// The program of device_processes.cpp writes a line for each row.
void measure_processes(Run& run) {
  const std::string through = run.device.is_cuda() ? "NVSHMEM" : "shared memory";
  if (run.device.is_cuda() && !has_nvshmem())
    return run.note("processes were not measured: " + describe_nvshmem());
  const std::string command =
      fmt::format("{} {} 2>/dev/null", ATTACCA_DEVICE_PROCESSES, run.is_quick() ? 3 : 11);
  run.show_progress(through, 0, 1);
  const auto output = output_of(command);
  if (!output || output->empty())
    return run.note("processes were not measured; this failed: " + command);
  std::istringstream lines(*output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name, bytes, unit, numbers;
    std::getline(std::getline(std::getline(fields, name, ';'), bytes, ';'), unit, ';');
    std::getline(fields, numbers);
    std::replace(numbers.begin(), numbers.end(), ';', ' ');
    Row row;
    row.name = fmt::format("{}, 2 processes, {}", name, through);
    row.unit = unit;
    double by_hand = -1;
    std::istringstream(numbers) >> row.value.p10 >> row.value.median >> row.value.p90 >> by_hand;
    if (bytes != "0") row.params["bytes"] = std::stoull(bytes);
    if (by_hand > 0) row.baseline = by_hand;
    row.is_rate = unit == "%";
    if (run.device.is_cuda()) {
      if (name.starts_with("put")) row.limit = by_hand * kPutGate;
      if (name.starts_with("work stealing")) row.limit = by_hand * kStealingGate;
      if (row.is_rate) row.limit = kHiddenGate;
    }
    run.add(std::move(row));
  }
}

}  // namespace

std::vector<double> all_reduce_us(const Device& device, Transport transport, std::size_t count,
                                  int launches, int samples) {
  std::vector<double> times;
  run_loopback(kRanks, [&](const Group& threads) {
    const Group group = threads.on(device, transport);
    Buffer<float> x(device, std::vector<float>(count, 0.0f));
    Graph graph(device, "all-reduces");
    std::optional<PlainNode> last;
    for (int at = 0; at < kExchanges; ++at) {
      const PlainNode node =
          group.all_reduce(x.span()).named(fmt::format("sum {}", at)).add_to(graph);
      if (last) node.after(*last);
      last = node;
    }
    std::vector<double> taken =
        times_of_exchange(graph, launches, samples, [&] { threads.barrier().run(); });
    if (group.rank() == 0) times = std::move(taken);
    threads.barrier().run();
  });
  return times;
}

namespace {

void ranks_device(Run& run) {
  const Device& device = run.device;
  bool has_library = device.is_cuda() && has_nccl();
  if (!has_library)
    run.note("NCCL was not measured: " + (device.is_cuda() ? describe_nccl() : "it needs a GPU"));
  for (const std::size_t bytes :
       {std::size_t{16} << 10, std::size_t{1} << 20, std::size_t{16} << 20}) {
    const std::size_t count = bytes / sizeof(float);
    const int launches = device.is_cuda() ? 20 : bytes < (1 << 20) ? 20 : 1;
    const std::string what = fmt::format("{} KiB", bytes >> 10);
    const auto edges = [&] {
      return all_reduce_us(device, Transport::edges, count, launches, 1).front();
    };
    const auto hand = [&] { return by_hand(device, count, launches); };
    const auto times = run.interleave(what, 11, {edges, hand});
    run.add(compared(kEdges, {{"bytes", bytes}}, times[0], times[1]));
    if (!has_library) continue;
    try {
      // To start NCCL takes seconds, so one start has all samples.
      run.show_progress("NCCL, " + what, 0, 1);
      const auto nccl = summarize(
          all_reduce_us(device, Transport::nccl, count, launches, run.is_quick() ? 3 : 11));
      run.add(compared(kNccl, {{"bytes", bytes}}, nccl, times[1]));
    } catch (const Error& error) {
      has_library = false;
      run.note(fmt::format("NCCL was not measured: {}", error.what()));
    }
  }
  measure_processes(run);
  run.add(Plot{.title = "All-reduce of two ranks that share a device, in a graph",
               .x = "bytes",
               .x_label = "bytes",
               .y_label = "µs",
               .is_log_y = true,
               .rows = {kEdges, kNccl}});
}

const Registered registered{{"ranks-device",
                             "what does an exchange between ranks of one device cost in a graph?",
                             Needs::either, ranks_device, ""}};

}  // namespace

}  // namespace bench
