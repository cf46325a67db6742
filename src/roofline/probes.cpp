// probes.cpp: builds the graph of probes, and compares their places with what is expected.
#include "roofline/probes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "graph/data.hpp"
#include "graph/lower.hpp"
#include "roofline/place.hpp"

namespace attacca::roofline {

namespace {

constexpr unsigned kTiny = 8;
constexpr unsigned kChain = 64;
constexpr unsigned kLonely = 4;
// More than any cache holds, and milliseconds of work.
constexpr std::size_t kHostBytes = std::size_t{256} << 20;
constexpr std::size_t kGpuBytes = std::size_t{2} << 30;
constexpr unsigned kHostRounds = 200'000;
constexpr unsigned kGpuRounds = 16384;

constexpr const char* kCopy = "copy";
constexpr const char* kRead = "read";
constexpr const char* kMultiplyAdd = "multiply-add";
std::string tiny_name(unsigned at) { return fmt::format("tiny {}", at + 1); }

}  // namespace

Probes::Probes(const Device& device)
    : device_(device),
      memory_(device, (device.is_cuda() ? kGpuBytes : kHostBytes) / sizeof(Quad)),
      out_(device, kLonely),
      seen_(device, 1) {
  const Stream stream(device);
  stream.fill(memory_.data(), 1, memory_.bytes());  // or the first pass would make the pages
  stream.synchronize();
}

Graph Probes::graph() const {
  const bool is_cuda = device_.is_cuda();
  const Grid grid = probe_grid(device_.processors(), is_cuda);
  const std::uint64_t half = memory_.size() / 2;
  const unsigned rounds = is_cuda ? kGpuRounds : kHostRounds;
  Graph graph(device_, "probes");
  const Node copy =
      graph.kernel(copy_memory(), grid, {memory_.data(), memory_.data() + half, half}).named(kCopy);
  const Node read =
      graph.kernel(read_memory(), grid, {memory_.data(), memory_.size(), seen_.data()})
          .named(kRead)
          .after(copy);
  Node last = graph
                  .kernel(multiply_add(), grid,
                          {out_.data(), rounds, multiply_add_flops(grid, rounds, is_cuda)})
                  .named(kMultiplyAdd)
                  .after(read);
  for (unsigned at = 0; at < kTiny; ++at)
    last = graph.kernel(copy_one(), kTinyGrid, {memory_.data() + at, memory_.data() + half + at})
               .named(tiny_name(at))
               .after(last);
  return graph;
}

Graph tiny_chain(const Device& device, Quad* memory, unsigned nodes, EdgeKind edges) {
  Graph graph(device, "chain of tiny kernels");
  std::optional<KernelNode<TinyArgs>> last;
  for (unsigned at = 0; at < nodes; ++at) {
    const auto node =
        graph.kernel(copy_one(), kTinyGrid, {memory, memory + at + 1}).named(tiny_name(at));
    if (last && edges == EdgeKind::full) node.after(*last);
    if (last && edges == EdgeKind::programmatic) node.after_programmatic(*last);
    last = node;
  }
  return graph;
}

Graph tiny_like(const Graph& graph, Quad* memory) {
  Graph tiny(graph.device(), "tiny kernels");
  std::map<NodeId, KernelNode<TinyArgs>> made;
  for (const graph::LoweredNode& node : graph::lower(graph::data_of(graph)).root.nodes) {
    const auto copy = tiny.kernel(copy_one(), kTinyGrid, {memory, memory + made.size() + 1});
    for (const graph::Edge& edge : node.deps)
      if (const auto from = made.find(edge.from); from != made.end())
        edge.kind == EdgeKind::full ? copy.after(from->second)
                                    : copy.after_programmatic(from->second);
    made.emplace(node.id, copy);
  }
  return tiny;
}

Graph Probes::chain() const { return tiny_chain(device_, memory_.data(), kChain); }

Graph Probes::lonely() const {
  const unsigned rounds = device_.is_cuda() ? kGpuRounds : kHostRounds;
  const Grid grid{Dim3{1}, probe_grid(device_.processors(), device_.is_cuda()).threads};
  Graph graph(device_, "lonely kernels");
  std::vector<Node> nodes;
  for (unsigned at = 0; at < kLonely; ++at) {
    const auto node = graph.kernel(
        multiply_add(), grid,
        {out_.data() + at, rounds, multiply_add_flops(grid, rounds, device_.is_cuda())});
    if (!nodes.empty()) node.after(nodes.back());
    nodes.push_back(node.named(fmt::format("lonely {}", at + 1)));
  }
  return graph;
}

std::vector<std::string> mispredicted(const std::vector<Trial>& trials) {
  std::vector<std::string> wrong;
  for (const Trial& trial : trials)
    if (trial.why_not.empty() && std::abs(trial.error()) > kTrialTolerance)
      wrong.push_back(fmt::format("{}: {} were predicted, and {} measured", trial.what,
                                  time_text(trial.predicted_us), time_text(trial.measured_us)));
  return wrong;
}

std::vector<Expected> expected_places() {
  std::vector<Expected> expected{{kCopy, Limit::memory, Tool::fewer_bytes, 1},
                                 {kRead, Limit::memory, Tool::fewer_bytes, 1},
                                 {kMultiplyAdd, Limit::compute, Tool::faster_arithmetic, 1}};
  for (unsigned at = 0; at < kTiny; ++at)
    expected.push_back({tiny_name(at), Limit::launch, Tool::fusion, 0});
  return expected;
}

std::vector<std::string> misplaced(const Roofline& found, const std::vector<Expected>& expected) {
  std::vector<std::string> wrong;
  for (const Expected& wanted : expected) {
    const auto kernel =
        std::find_if(found.kernels.begin(), found.kernels.end(),
                     [&](const PlacedKernel& placed) { return placed.name == wanted.kernel; });
    if (kernel == found.kernels.end()) {
      wrong.push_back(fmt::format("'{}' was not seen", wanted.kernel));
      continue;
    }
    if (kernel->limit != wanted.limit)
      wrong.push_back(fmt::format("'{}' is bound by {}, and {} is expected", wanted.kernel,
                                  limit_name(kernel->limit), limit_name(wanted.limit)));
    else if (wanted.share > 0 && std::abs(kernel->share() - wanted.share) > kProbeTolerance)
      wrong.push_back(fmt::format("'{}' is at {:.0f} % of its roof, and {:.0f} % is expected",
                                  wanted.kernel, 100 * kernel->share(), 100 * wanted.share));
    const bool has_advice =
        std::any_of(found.advice.begin(), found.advice.end(), [&](const RoofAdvice& advice) {
          return advice.about == wanted.kernel && advice.tool == wanted.tool;
        });
    if (!has_advice)
      wrong.push_back(
          fmt::format("'{}' is not advised to use {}", wanted.kernel, tool_name(wanted.tool)));
  }
  return wrong;
}

}  // namespace attacca::roofline
