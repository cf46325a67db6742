// graph_clock.cpp: times graphs on a device. On the host the executor's records tell the nodes
// apart. On a GPU they come from CUPTI, and where that does not work from events between kernels.
#include "roofline/graph_clock.hpp"

#include <attacca/device.hpp>
#include <attacca/exec.hpp>
#include <attacca/loop.hpp>
#include <attacca/trace.hpp>

#include <algorithm>
#include <charconv>
#include <functional>

#include "graph/data.hpp"
#include "graph/lower.hpp"
#include "roofline/probe_kernels.hpp"

namespace attacca::roofline {

using namespace graph;

namespace {

constexpr unsigned kTimings = 7;        // the median counts
constexpr double kLeastSeconds = 2e-3;  // of a round
constexpr unsigned kMostLaunches = 64;  // of a round
constexpr unsigned kNodeLaunches = 15;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool is_streamable(const Part& part) {
  return std::holds_alternative<KernelPart>(part) || std::holds_alternative<CopyPart>(part) ||
         std::holds_alternative<FillPart>(part);
}

void enqueue(const StreamRef& stream, const NodeData& node) {
  if (!node.is_enabled) return;
  if (const auto* kernel = std::get_if<KernelPart>(&node.part))
    Access::enqueue_kernel(stream, *kernel->info, kernel->grid, kernel->args.data());
  else if (const auto* copy = std::get_if<CopyPart>(&node.part); copy && copy->rows == 1)
    stream.copy(copy->to, copy->from, copy->bytes);
  else if (copy)
    stream.copy_2d({copy->to, copy->to_pitch}, {copy->from, copy->from_pitch}, copy->bytes,
                   copy->rows);
  else if (const auto* fill = std::get_if<FillPart>(&node.part))
    stream.fill(fill->to, fill->value, fill->bytes);
}

/// Producers first, children inlined.
std::vector<NodeId> order_of(const GraphData& data) {
  std::vector<NodeId> order;
  for (const LoweredNode& node : lower(data).root.nodes) order.push_back(node.id);
  return order;
}

class DeviceGraphClock final : public GraphClock {
 public:
  explicit DeviceGraphClock(const Device& device) : device_(device), stream_(device) {}

  std::vector<NodeTime> nodes(const Graph& graph) override {
    std::vector<NodeTime> times = from_records(graph);
    return times.empty() ? from_events(graph) : times;
  }

  double graph(const Graph& graph) override {
    Exec exec = graph.instantiate();
    return time([&] { exec.launch(stream_); });
  }

  double stream(const Graph& graph) override {
    const GraphData& data = data_of(graph);
    const std::vector<NodeId> order = order_of(data);
    return time([&] {
      for (const NodeId id : order) enqueue(stream_, data.nodes[id]);
    });
  }

  double persistent(const Graph& graph, const PersistentProgram& program) override {
    const GraphData& data = data_of(graph);
    Grid grid;  // of the last kernel: blocks of all have the same size
    for (const NodeData& node : data.nodes)
      if (const auto* kernel = std::get_if<KernelPart>(&node.part))
        grid.threads = kernel->grid.threads;
    Loop loop(device_, graph.name(), [&](Graph& body, Condition again) {
      const PlainNode pass = body.child("pass", graph);
      body.kernel(end_pass(), grid, {again}).after(pass);
    });
    loop.with(program);
    LoopExec exec = loop.instantiate(LoopForm::persistent_kernel);
    return time([&] { exec.launch(stream_); });
  }

  std::vector<double> counted(instruments::Counter counter, const Graph& graph,
                              std::string& why_not) override {
    if (!device_.is_cuda()) return GraphClock::counted(counter, graph, why_not);
    if (!can_be_streamed(graph)) {
      why_not = "the graph has nodes that are no kernels, copies or fills";
      return {};
    }
    const GraphData& data = data_of(graph);
    const std::vector<NodeId> order = order_of(data);
    std::vector<std::function<void()>> work;
    for (const NodeId id : order)
      work.emplace_back([this, &node = data.nodes[id]] {
        enqueue(stream_, node);
        stream_.synchronize();
      });
    for (const auto& each : work) each();  // loads code
    const std::vector<double> in_order = instruments::count(counter, device_, work, why_not);
    if (in_order.empty()) return {};
    std::vector<double> by_id(data.nodes.size(), -1);
    for (std::size_t at = 0; at < order.size(); ++at) by_id[order[at]] = in_order[at];
    return by_id;
  }

  std::string source() const override { return source_; }

 private:
  /// Microseconds of one of several launches in a row.
  double time(const std::function<void()>& launch) const {
    const auto seconds = [&](unsigned count) {
      const Event start(device_, Event::Timing::on), end(device_, Event::Timing::on);
      stream_.record(start);
      for (unsigned at = 0; at < count; ++at) launch();
      stream_.record(end);
      stream_.synchronize();
      return end.since(start).count();
    };
    seconds(1);  // loads code and wakes threads
    const double one = std::max(seconds(1), 1e-9);
    const auto count =
        static_cast<unsigned>(std::clamp(kLeastSeconds / one, 1.0, double{kMostLaunches}));
    std::vector<double> rounds;
    for (unsigned round = 0; round < kTimings; ++round) rounds.push_back(seconds(count) / count);
    return 1e6 * median(rounds);
  }

  void launch_all(const Graph& graph) const {
    Exec exec = graph.instantiate();
    for (unsigned at = 0; at < kNodeLaunches; ++at) exec.launch(stream_);
    stream_.synchronize();
  }

  /// Empty where nodes are not recorded, which may be on a GPU.
  std::vector<NodeTime> from_records(const Graph& graph) {
    source_ = device_.is_cuda() ? "CUPTI" : "the host executor's records";
    const Tracer tracer(device_);
    if (!tracer.why_not().empty()) return {};
    // Names need not be unique, so a copy of the graph has numbers for names.
    Graph numbered = graph;
    std::vector<NodeData>& all = data_of(numbered).nodes;
    for (std::size_t id = 0; id < all.size(); ++id) all[id].name = std::to_string(id);
    launch_all(numbered);
    std::vector<std::vector<double>> seen(all.size());
    bool has_names = false;
    const Trace trace = tracer.trace();
    for (const TraceSlice& slice : trace.slices) {
      const bool is_part = !slice.arguments.empty() && slice.arguments.front().first == "part";
      if (is_part || trace.tracks[slice.track].has_ranges) continue;
      std::size_t id = 0;
      const char* const end = slice.name.data() + slice.name.size();
      const auto read = std::from_chars(slice.name.data(), end, id);
      if (read.ec != std::errc() || read.ptr != end || id >= seen.size()) continue;
      seen[id].push_back(1e-3 * static_cast<double>(slice.end_ns - slice.begin_ns));
      has_names = true;
    }
    if (!has_names) return {};
    std::vector<NodeTime> times(seen.size());
    for (std::size_t id = 0; id < seen.size(); ++id)
      times[id] = {static_cast<double>(seen[id].size()) / kNodeLaunches, median(seen[id])};
    return times;
  }

  std::vector<NodeTime> from_events(const Graph& graph) {
    source_ = "events between kernels on a stream";
    const GraphData& data = data_of(graph);
    std::vector<NodeTime> times(data.nodes.size());
    if (!can_be_streamed(graph)) return times;
    const std::vector<NodeId> order = order_of(data);
    std::vector<Event> events;
    for (std::size_t at = 0; at < order.size() + 2; ++at)
      events.emplace_back(device_, Event::Timing::on);
    std::vector<std::vector<double>> seen(data.nodes.size());
    std::vector<double> nothing;  // between two events
    for (unsigned launch = 0; launch < kNodeLaunches; ++launch) {
      stream_.record(events[0]);
      stream_.record(events[1]);
      for (std::size_t at = 0; at < order.size(); ++at) {
        enqueue(stream_, data.nodes[order[at]]);
        stream_.record(events[at + 2]);
      }
      stream_.synchronize();
      nothing.push_back(1e6 * events[1].since(events[0]).count());
      for (std::size_t at = 0; at < order.size(); ++at)
        seen[order[at]].push_back(1e6 * events[at + 2].since(events[at + 1]).count());
    }
    for (const NodeId id : order)
      times[id] = {1, std::max(0.0, median(seen[id]) - median(nothing))};
    return times;
  }

  Device device_;
  Stream stream_;
  std::string source_;
};

}  // namespace

bool can_be_streamed(const Graph& graph) {
  const GraphData& data = data_of(graph);
  return std::all_of(data.nodes.begin(), data.nodes.end(), [](const NodeData& node) {
    return is_streamable(node.part) || std::holds_alternative<ChildPart>(node.part);
  });
}

std::unique_ptr<GraphClock> clock_of(const Device& device) {
  return std::make_unique<DeviceGraphClock>(device);
}

}  // namespace attacca::roofline
