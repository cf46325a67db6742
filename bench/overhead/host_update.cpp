// host_update.cpp: the host executor's time to change a graph while a launch of it is outstanding,
// beside the same change to an idle one.
#include <fmt/core.h>
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>

#include <future>
#include <utility>

#include "harness.hpp"
#include "kernels.hpp"

namespace bench {

namespace {

constexpr unsigned kNodes = 1000;
constexpr int kSamples = 101;
constexpr int kRounds = 16;     // in one sample
constexpr double kGate = 1.25;  // times the same change to an idle graph

/// A chain of kernels that each add `add` to one cell.
struct Chain {
  Chain(const attacca::Device& device, unsigned* cell, unsigned add) : graph(device, "chain") {
    nodes.reserve(kNodes);
    for (unsigned at = 0; at < kNodes; ++at) {
      const auto node = graph.kernel(kernels::touch, {}, {cell, add});
      if (at) node.after(nodes.back());
      nodes.push_back(node);
    }
  }
  attacca::Graph graph;
  std::vector<attacca::KernelNode<kernels::TouchArgs>> nodes;
};

/// One exec that is changed over and over, with a launch between two changes.
class Changed {
 public:
  explicit Changed(const attacca::Device& device)
      : stream_(device),
        chains_{{device, &cell_, 1}, {device, &cell_, 2}},
        exec_(chains_[0].graph.instantiate()) {}

  using Change = void (Changed::*)();
  void set_one() { set(chains_[0].nodes[round_ % kNodes]); }
  void set_all() {
    for (const auto& node : chains_[0].nodes) set(node);
  }
  void update_all() { require(exec_.update(chains_[round_ % 2].graph)); }

  /// The stream is held while the change is made. Behind that waits a launch, if one is to be
  /// outstanding; otherwise the launch is made afterwards.
  double time(Change change, bool is_outstanding) {
    double sum = 0;
    for (int round = 0; round < kRounds; ++round) {
      ++round_;
      std::promise<void> reached;
      std::promise<void> gate;
      stream_.host("gate", [&reached, opened = gate.get_future().share()] {
        reached.set_value();
        opened.wait();
      });
      if (is_outstanding) exec_.launch(stream_);
      reached.get_future().wait();
      sum += microseconds([&] { (this->*change)(); });
      gate.set_value();
      if (!is_outstanding) exec_.launch(stream_);
      stream_.synchronize();
    }
    return sum / kRounds;
  }

 private:
  void set(const attacca::KernelNode<kernels::TouchArgs>& node) {
    require(exec_.set(node, {&cell_, round_}));
  }
  static void require(const attacca::UpdateReport& report) {
    if (report.was_reinstantiated)
      throw attacca::Error(fmt::format("an update was not made in place: {}", report.reason));
  }

  unsigned cell_ = 0;
  unsigned round_ = 0;
  attacca::Stream stream_;
  Chain chains_[2];
  attacca::Exec exec_;
};

void host_update(Run& run) {
  const std::pair<const char*, Changed::Change> changes[] = {
      {"set one node", &Changed::set_one},
      {"set every node", &Changed::set_all},
      {"update from a graph, all nodes differ", &Changed::update_all}};
  for (const auto& [name, change] : changes) {
    Changed outstanding(run.device);
    Changed idle(run.device);
    const auto times = run.interleave(name, kSamples,
                                      {[&, by = change] { return outstanding.time(by, true); },
                                       [&, by = change] { return idle.time(by, false); }});
    Row row = compared(name, {{"nodes", kNodes}}, times[0], times[1]);
    row.limit = times[1].median * kGate;
    run.add(std::move(row));
  }
}

const Registered registered{{"overhead-host-update",
                             "what does changing a host graph cost while a launch of it is "
                             "outstanding?",
                             Needs::host, host_update, "it measures the host executor"}};

}  // namespace

}  // namespace bench
