// costs.cpp: times loops that do nothing in each form, and keeps the result for each device.
#include "loop/costs.hpp"

#include <attacca/memory.hpp>
#include <attacca/switch_loop.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "loop/idle_kernels.hpp"

namespace attacca::loop {

namespace {

constexpr unsigned kFew = 4;            // passes; subtracting them from many removes the launch
constexpr double kMicroseconds = 300;   // of the passes alone, so that the clock's noise is small
constexpr unsigned kMostPasses = 4096;  // for a loop that costs nothing
constexpr int kRounds = 5;
constexpr unsigned kNodes = 3;    // beside the one that counts passes
constexpr unsigned kBlocks = 16;  // of a large node
constexpr unsigned kThreads = 256;

std::mutex mutex;
std::map<std::pair<std::string, LoopForm>, FormCost> measured;
std::map<std::pair<std::string, LoopForm>, double> measured_switches;
std::optional<std::array<FormCost, kLoopForms>> fixed;

/// Microseconds of a pass, the best of a few rounds. `left` is the number of passes that a launch
/// of `exec` makes.
template <class LoopExec>
double time_passes(const Device& device, LoopExec& exec, Buffer<unsigned>& left) {
  const Stream stream(device);
  const auto time = [&](unsigned passes) {
    left.write(std::vector<unsigned>{passes});
    const auto start = std::chrono::steady_clock::now();
    exec.launch(stream);
    stream.synchronize();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  };
  // The best of some rounds, also to find how many passes are enough: a single one may stall.
  const auto best = [&](unsigned passes) {
    double least = time(passes);
    for (int round = 1; round < kRounds; ++round) least = std::min(least, time(passes));
    return least;
  };
  time(kFew);  // loads code and wakes threads
  double few = best(kFew);
  for (unsigned passes = 8 * kFew;; passes *= 2) {
    const double many = best(passes);
    few = std::min(few, time(kFew));
    // Enough is what stands out from the launch, which takes milliseconds where others compute.
    if (many - few >= kMicroseconds || passes >= kMostPasses)
      return std::max(0.0, many - few) / (passes - kFew);
  }
}

/// Microseconds of a pass with `nodes` idle kernels of `blocks` blocks.
double time_pass(const Device& device, LoopForm form, unsigned nodes, unsigned blocks) {
  Buffer<unsigned> left(device, 1);
  Loop loop(device, "idle", [&](Graph& body, Condition again) {
    std::optional<Node> last;
    for (unsigned at = 0; at < nodes; ++at) {
      auto node = body.kernel(idle(), Grid{{blocks}, {kThreads}}, {0});
      if (last) node.after(*last);
      last = node;
    }
    auto count = body.kernel(count_passes(), Grid{{1}, {kThreads}}, {left.data(), again});
    if (last) count.after(*last);
  });
  loop.with(idle_and_count());
  LoopExec exec = loop.instantiate(form);
  return time_passes(device, exec, left);
}

double time_switch(const Device& device, LoopForm form) {
  Buffer<unsigned> left(device, 1);
  const Grid grid{{1}, {kThreads}};
  const Graph::Fill arm = [&](Graph& pass) { pass.kernel(idle(), grid, {0}); };
  const SwitchLoop loop(device, "idle",
                        {.lead =
                             [&](Graph& pass, Condition again, Condition chosen) {
                               pass.kernel(choose_arm(), grid, {left.data(), again, chosen});
                             },
                         .arms = {arm, arm},
                         .beside = arm});
  SwitchLoopExec exec = loop.instantiate(form);
  return time_passes(device, exec, left);
}

}  // namespace

FormCost measure_cost(const Device& device, LoopForm form) {
  const double bare = time_pass(device, form, 0, 1);
  const auto per_node = [&](unsigned blocks) {
    return std::max(0.0, time_pass(device, form, kNodes, blocks) - bare) / kNodes;
  };
  const double small = per_node(1);
  return {std::max(0.0, bare - small), small, per_node(kBlocks)};
}

FormCost cost_of(const Device& device, LoopForm form) {
  const std::lock_guard lock(mutex);
  if (fixed) return (*fixed)[static_cast<std::size_t>(form)];
  const auto key = std::pair(device.name(), form);
  const auto found = measured.find(key);
  if (found != measured.end()) return found->second;
  return measured.emplace(key, measure_cost(device, form)).first->second;
}

double cost_of_switch(const Device& device, LoopForm form) {
  const std::lock_guard lock(mutex);
  if (fixed) return (*fixed)[static_cast<std::size_t>(form)].per_pass;
  const auto key = std::pair(device.name(), form);
  const auto found = measured_switches.find(key);
  if (found != measured_switches.end()) return found->second;
  return measured_switches.emplace(key, time_switch(device, form)).first->second;
}

double cost_of_pass(const FormCost& cost, LoopForm form, const BodySize& body) {
  unsigned large = body.large_nodes;
  if (form == LoopForm::persistent_kernel && large > 0) large = body.nodes;
  return cost.per_pass + large * cost.per_large_node + (body.nodes - large) * cost.per_node;
}

FixedCosts::FixedCosts(const std::array<FormCost, kLoopForms>& costs) {
  const std::lock_guard lock(mutex);
  fixed = costs;
}
FixedCosts::~FixedCosts() {
  const std::lock_guard lock(mutex);
  fixed.reset();
}

}  // namespace attacca::loop
