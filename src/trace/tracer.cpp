// tracer.cpp: collects what the host executor ran. Each thread writes to a lane of its own, so
// threads do not wait for each other, and keeps each name once. What a GPU ran comes from CUPTI, or
// from events around launches. What is in loops and in graphs that device code launches comes from
// records that they write themselves.
#include <attacca/error.hpp>
#include <attacca/mark.hpp>
#include <attacca/trace.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "core/clock.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"
#include "graph/host_calls.hpp"
#include "graph/marks.hpp"
#include "instruments/cupti.hpp"
#include "trace/device_slices.hpp"
#include "trace/gpu_slices.hpp"
#include "trace/slices.hpp"

namespace attacca {

namespace {

/// Texts, each kept once.
class Names {
 public:
  std::uint32_t number_of(std::string_view text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    texts_.emplace_back(text);
    const auto number = static_cast<std::uint32_t>(texts_.size() - 1);
    numbers_.emplace(texts_.back(), number);
    return number;
  }
  const std::string& text(std::uint32_t number) const { return texts_[number]; }

 private:
  std::deque<std::string> texts_;  // a deque: `numbers_` refers to them
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

struct Ran {
  std::uint32_t node;
  std::uint32_t graph;
  std::uint64_t launch;
  std::uint64_t iteration;
  std::int64_t start_ns;
  std::int64_t end_ns;
  std::int64_t part_of;
  Cost cost;
};

struct Called {
  const char* kind;
  std::int64_t begin_ns;
  std::int64_t end_ns;
};

/// What one thread ran, and the calls that it made.
struct Lane {
  std::mutex mutex;  // its thread writes, `trace` reads
  Names names;
  std::vector<Ran> ran;
  std::vector<Called> calls;
  std::size_t dropped = 0;

  void add(const Called& call) {
    const std::lock_guard lock(mutex);
    if (calls.size() == trace::kMostSlices)
      ++dropped;
    else
      calls.push_back(call);
  }

  void add(const graph::Execution& execution) {
    const std::lock_guard lock(mutex);
    const std::uint32_t node = names.number_of(execution.node);
    // A thread takes a kernel in several pieces; they are one slice.
    if (execution.part_of != 0 && !ran.empty() && ran.back().part_of == execution.part_of &&
        ran.back().node == node) {
      ran.back().end_ns = execution.end_ns;
      return;
    }
    if (ran.size() == trace::kMostSlices) {
      ++dropped;
      return;
    }
    ran.push_back({node, names.number_of(execution.graph), execution.launch, execution.iteration,
                   execution.start_ns, execution.end_ns, execution.part_of,
                   execution.kernel ? execution.kernel->cost(execution.args) : Cost{}});
  }
};

/// Tells apart tracers that had the same address one after another.
std::atomic<std::uint64_t> tracers{0};

}  // namespace

struct Tracer::Source final : graph::Observer, graph::HostCallListener {
  Source(const Device& on, TraceLevel at) : process(on.name()), level(at) {}

  void ran(const graph::Execution& execution) override {
    if (execution.kernel != &mark().info()) lane().add(execution);
  }
  void called(const char* kind, std::int64_t begin_ns, std::int64_t end_ns) override {
    lane().add(Called{kind, begin_ns, end_ns});
  }
  bool sees_nodes() const override { return level == TraceLevel::node; }
  void built(void* native, const graph::Execution& node) override {
    if (gpu) gpu_nodes.add(gpu->number_of(native), node);
  }
  std::shared_ptr<graph::Marks> marks() override { return own_marks; }
  bool times_launches() const override { return launches.has_value(); }
  void launched(std::string_view graph, const graph::StreamImpl& stream,
                std::shared_ptr<graph::EventImpl> start,
                std::shared_ptr<graph::EventImpl> end) override {
    launches->add({std::string(graph), &stream, std::move(start), std::move(end)});
  }

  /// The calling thread's.
  Lane& lane() {
    thread_local std::uint64_t tracer = 0;
    thread_local Lane* last = nullptr;
    if (tracer == number) return *last;
    const std::lock_guard lock(mutex);
    Lane*& mine = lane_of[std::this_thread::get_id()];
    if (!mine) mine = &lanes.emplace_back();
    tracer = number;
    return *(last = mine);
  }

  const std::uint64_t number = ++tracers;
  const std::string process;
  const TraceLevel level;
  std::string why_not;
  std::unique_ptr<instruments::GpuRecorder> gpu;  // null: none is needed, or works
  trace::GpuNodes gpu_nodes;
  std::optional<trace::TimedLaunches> launches;
  std::shared_ptr<graph::Marks> own_marks;
  trace::ClockMap::Moment began;  // by the clock of a GPU
  std::mutex mutex;               // of all below, but for what is inside the lanes
  std::deque<Lane> lanes;
  std::map<std::thread::id, Lane*> lane_of;
  Trace added;
  std::size_t dropped = 0;  // of those added
};

Tracer::Tracer(const Device& device, TraceLevel level)
    : device_(device), source_(std::make_shared<Source>(device, level)) {
  if (graph::impl_of(device).observer())
    throw BadArgument("'" + device.name() +
                      "' is being traced already; end that Tracer first, and leave --trace out "
                      "where a command makes one of its own");
  // The events must be there before the first launch is seen.
  if (device.is_cuda()) {
    source_->began = trace::moment_of(device);  // before CUPTI sees kernels
    if (level == TraceLevel::node) source_->gpu = instruments::start_gpu_recorder(source_->why_not);
    if (!source_->gpu) source_->launches.emplace(device);
  }
  // The host executor tells of nodes in loops itself.
  source_->own_marks = std::make_shared<graph::Marks>(
      device, source_->gpu ? graph::Marks::Level::nodes : graph::Marks::Level::scopes);
  graph::impl_of(device_).observe(source_);
  if (level == TraceLevel::node) graph::listen(device_, *source_);
}

Tracer::~Tracer() {
  graph::stop_listening(*source_);
  graph::impl_of(device_).observe(nullptr);
}

std::string Tracer::why_not() const { return source_->why_not; }
std::int64_t Tracer::now_ns() { return attacca::now_ns(); }

void Tracer::add(const TraceTrack& track, TraceSlice slice) {
  const std::lock_guard lock(source_->mutex);
  if (source_->added.slices.size() == trace::kMostSlices) {
    ++source_->dropped;
    return;
  }
  std::vector<TraceTrack>& tracks = source_->added.tracks;
  slice.track =
      static_cast<std::size_t>(std::find(tracks.begin(), tracks.end(), track) - tracks.begin());
  if (slice.track == tracks.size()) tracks.push_back(track);
  source_->added.slices.push_back(std::move(slice));
}

Trace Tracer::trace() const {
  const std::lock_guard lock(source_->mutex);
  Trace trace = source_->added;
  std::size_t threads = 0, callers = 0;
  for (Lane& lane : source_->lanes) {
    const std::lock_guard lane_lock(lane.mutex);
    if (!lane.calls.empty())
      trace.tracks.push_back(
          {trace::kHostCalls, "thread " + std::to_string(++callers), /*has_ranges=*/true});
    for (const Called& call : lane.calls)
      trace.slices.push_back({.track = trace.tracks.size() - 1,
                              .name = call.kind,
                              .begin_ns = call.begin_ns,
                              .end_ns = call.end_ns});
    if (lane.ran.empty()) continue;
    const std::size_t track = trace.tracks.size();
    trace.tracks.push_back({source_->process, "thread " + std::to_string(++threads)});
    for (const Ran& ran : lane.ran) {
      TraceSlice& slice = trace.slices.emplace_back();
      slice = {.track = track,
               .name = lane.names.text(ran.node),
               .begin_ns = ran.start_ns,
               .end_ns = ran.end_ns,
               .graph = lane.names.text(ran.graph),
               .launch = ran.launch,
               .iteration = ran.iteration,
               .cost = ran.cost};
      if (ran.part_of != 0) slice.arguments.emplace_back(trace::kPart, 1);
    }
  }
  const std::vector<graph::MarkSite> sites = source_->own_marks->sites();
  if (source_->gpu)
    source_->gpu_nodes.append(source_->gpu->spans(), sites, source_->process, trace);
  if (sites.size() > 1) {
    trace::ClockMap clock{source_->began, source_->began};  // the host's clock is ours
    if (device_.is_cuda()) clock.last = trace::moment_of(device_);
    trace::append_device_slices(source_->own_marks->read(), sites, clock, source_->process,
                                device_.is_cuda() ? "SM" : "core", trace);
  }
  if (source_->launches) source_->launches->append(source_->process, trace);
  std::stable_sort(trace.slices.begin(), trace.slices.end(), trace::is_earlier);
  return trace;
}

std::size_t Tracer::dropped() const {
  const std::lock_guard lock(source_->mutex);
  std::size_t sum = source_->dropped;
  if (source_->gpu) sum += source_->gpu->dropped();
  if (source_->launches) sum += source_->launches->dropped();
  sum += source_->own_marks->lost();
  for (Lane& lane : source_->lanes) {
    const std::lock_guard lane_lock(lane.mutex);
    sum += lane.dropped;
  }
  return sum;
}

}  // namespace attacca
