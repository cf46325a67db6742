// ranks_device.cpp: all-reduces of two ranks that share a device, in graphs: joined (edges) and, on
// a GPU, through NCCL, against one kernel that does the same by hand.
#include <fmt/core.h>
#include <attacca/attacca.hpp>

#include <algorithm>
#include <optional>
#include <string>

#include "harness.hpp"
#include "ranks/ranks_kernels.hpp"

namespace bench {

namespace {

using namespace attacca;

constexpr int kRanks = 2;
constexpr int kExchanges = 32;  // in a graph, as in a step of a model with 16 layers

/// Microseconds of one exchange in a graph of kExchanges. `meet` comes before the time is taken.
template <class Meet>
double time_of_exchange(const Graph& graph, int launches, const Meet& meet) {
  Exec exec = graph.instantiate();
  Stream stream(graph.device());
  const auto launch = [&](int times) {
    for (int at = 0; at < times; ++at) exec.launch(stream);
    stream.synchronize();
  };
  launch(1);
  meet();
  return microseconds([&] { launch(launches); }) / launches / kExchanges;
}

/// As rank 0 sees it.
double of_ranks(const Device& device, Transport transport, std::size_t count, int launches) {
  double time = 0;
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
    const double taken = time_of_exchange(graph, launches, [&] { threads.barrier().run(); });
    if (group.rank() == 0) time = taken;
    threads.barrier().run();
  });
  return time;
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
  return time_of_exchange(graph, launches, [] {});
}

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
    const auto edges = [&] { return of_ranks(device, Transport::edges, count, launches); };
    const auto hand = [&] { return by_hand(device, count, launches); };
    const auto times = run.interleave(what, 11, {edges, hand});
    run.add(compared("all-reduce of 2 ranks that share a device against a kernel by hand",
                     {{"bytes", bytes}}, times[0], times[1]));
    if (!has_library) continue;
    try {
      const auto nccl = [&] { return of_ranks(device, Transport::nccl, count, launches); };
      const auto with = run.interleave("NCCL, " + what, 5, {nccl, hand});
      run.add(compared("the same through NCCL", {{"bytes", bytes}}, with[0], with[1]));
    } catch (const Error& error) {
      has_library = false;
      run.note(fmt::format("NCCL was not measured: {}", error.what()));
    }
  }
  run.add(Plot{.title = "All-reduce of two ranks that share a device, in a graph",
               .x = "bytes",
               .x_label = "bytes",
               .y_label = "µs",
               .is_log_y = true});
}

const Registered registered{{"ranks-device",
                             "what does an exchange between ranks of one device cost in a graph?",
                             Needs::either, ranks_device, ""}};

}  // namespace

}  // namespace bench
