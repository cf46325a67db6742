// host_dispatch.cpp: the host executor's time per node against oneTBB's flow graph on the same
// random graph with the same work, and a node's memory.
#include <fmt/core.h>
#include <malloc.h>
#include <tbb/flow_graph.h>
#include <tbb/info.h>
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>

#include <algorithm>
#include <deque>
#include <random>

#include "harness.hpp"
#include "kernels.hpp"

namespace bench {

namespace {

using attacca::Device;
using attacca::Graph;

constexpr unsigned kNodes = 10'000;
constexpr unsigned kWindow = 100;
constexpr unsigned kMostProducers = 4;
constexpr unsigned kSeed = 20260801;

/// The producers of each node: one to four of the hundred nodes before it.
using Dag = std::vector<std::vector<unsigned>>;

Dag random_dag() {
  std::mt19937 random(kSeed);
  Dag dag(kNodes);
  for (unsigned node = 1; node < kNodes; ++node) {
    auto& producers = dag[node];
    const unsigned reach = std::min(node, kWindow);
    const unsigned wanted = 1 + random() % kMostProducers;
    for (unsigned at = 0; at < wanted; ++at) producers.push_back(node - 1 - random() % reach);
    std::sort(producers.begin(), producers.end());
    producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
  }
  return dag;
}

Graph build(const Device& device, const Dag& dag, unsigned* cells, unsigned turns) {
  Graph graph(device, "random");
  std::vector<attacca::Node> nodes;
  nodes.reserve(dag.size());
  for (unsigned node = 0; node < dag.size(); ++node) {
    const auto added = graph.kernel(kernels::work, {}, {cells + node, turns});
    for (const unsigned producer : dag[node]) added.after(nodes[producer]);
    nodes.push_back(added);
  }
  return graph;
}

/// The graph in attacca, ready to replay.
struct OurDag {
  OurDag(const Device& device, const Dag& dag, unsigned* cells, unsigned turns)
      : exec(build(device, dag, cells, turns).instantiate()), stream(device) {}
  void replay() {
    exec.launch(stream);
    stream.synchronize();
  }
  attacca::Exec exec;
  attacca::Stream stream;
};

/// The graph in oneTBB, ready to replay.
struct TbbDag {
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

  TbbDag(const Dag& dag, unsigned* cells, unsigned turns) {
    for (unsigned node = 0; node < dag.size(); ++node) {
      const kernels::WorkArgs args{cells + node, turns};
      nodes.emplace_back(graph, [args](const tbb::flow::continue_msg&) { kernels::do_work(args); });
      for (const unsigned producer : dag[node]) tbb::flow::make_edge(nodes[producer], nodes[node]);
      if (dag[node].empty()) roots.push_back(&nodes[node]);
    }
  }
  void replay() {
    for (Node* root : roots) root->try_put({});
    graph.wait_for_all();
  }
  tbb::flow::graph graph;
  std::deque<Node> nodes;
  std::vector<Node*> roots;
};

/// Bytes allocated on the heap, on this thread's arena and straight from the system.
double heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}
template <class Make>
double bytes_of(Make make) {
  const double before = heap_bytes();
  const auto made = make();
  return heap_bytes() - before;
}

/// Turns that take about a microsecond on this machine.
unsigned turns_of_a_microsecond() {
  constexpr unsigned kTrial = 1'000'000;
  unsigned cell = 0;
  std::vector<double> samples;
  for (int at = 0; at < 9; ++at)
    samples.push_back(microseconds([&] { kernels::do_work({&cell, kTrial}); }));
  return static_cast<unsigned>(kTrial / summarize(std::move(samples)).median);
}

void measure(Run& run, const Dag& dag, const std::string& kernel, unsigned turns,
             std::optional<double> work_ns) {
  std::vector<unsigned> cells(kNodes * 3);
  OurDag threads(Device::host(), dag, cells.data(), turns);
  OurDag serial(Device::host_serial(), dag, cells.data() + kNodes, turns);
  TbbDag tbb(dag, cells.data() + 2 * kNodes, turns);
  unsigned replays = 0;
  const auto times =
      run.interleave(kernel + " kernels", 101,
                     {[&] { return ++replays, microseconds([&] { threads.replay(); }); },
                      [&] { return microseconds([&] { serial.replay(); }); },
                      [&] { return microseconds([&] { tbb.replay(); }); }});
  for (const unsigned runs : cells)
    if (runs != replays)
      throw attacca::Error(fmt::format("a node ran {} times in {} replays", runs, replays));

  const int cores = tbb::info::default_concurrency();
  const auto per_node = [](const Summary& time) { return scaled(time, 1000.0 / kNodes); };
  const double baseline = per_node(times[2]).median;
  const auto add = [&](const char* name, int used, const Summary& time, bool is_gated) {
    Row row{name, {{"kernel", kernel}, {"threads", used}}, per_node(time), "ns/node", baseline};
    if (work_ns) row.floor = *work_ns / used;
    if (is_gated) row.limit = baseline;
    run.add(std::move(row));
  };
  add("host", cores, times[0], true);
  add("host-serial", 1, times[1], false);
  add("oneTBB flow graph", cores, times[2], false);
}

void measure_memory(Run& run, const Dag& dag) {
  std::vector<unsigned> cells(kNodes);
  const double ours = bytes_of([&] {
    return std::make_unique<attacca::Exec>(
        build(Device::host(), dag, cells.data(), 0).instantiate());
  });
  const double theirs = bytes_of([&] { return std::make_unique<TbbDag>(dag, cells.data(), 0); });
  const auto reported = static_cast<double>(
      build(Device::host(), dag, cells.data(), 0).instantiate().memory().host_bytes);
  const auto add = [&](const char* name, double bytes) {
    const double value = bytes / kNodes;
    run.add(Row{name, {}, {value, value, value}, "B/node", theirs / kNodes});
  };
  add("memory of an Exec", ours);
  add("memory of an Exec, by its own count", reported);
}

void host_dispatch(Run& run) {
  const Dag dag = random_dag();
  const unsigned turns = turns_of_a_microsecond();
  measure(run, dag, "empty", 0, std::nullopt);
  measure(run, dag, "1 µs", turns, 1000.0);
  measure_memory(run, dag);
}

const Registered registered{{"overhead-host-dispatch",
                             "what does the host executor spend per node of a 10,000-node random "
                             "graph, beside oneTBB's flow graph?",
                             Needs::host, host_dispatch, "it measures the host executor"}};

}  // namespace

}  // namespace bench
