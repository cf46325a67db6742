// resident.hpp: the scheduler that lives on the device. Jobs stand in a queue, and every kind of
// work is a graph whose last node schedules: it takes the next job, puts its payload where the
// graphs look for it and launches that job's graph as a tail, or relaunches its own. While there is
// no job a graph of that node alone goes round. The host makes one launch, however many jobs
// follow, and may add more while it runs.
//
//   const Kernel<ScheduleArgs<Payload>> schedule = make_scheduler<Payload>();  // by nvcc
//
//   ResidentScheduler<Payload> scheduler(device, schedule, {.capacity = 1024, .producers = 1});
//   Graph work(device, "work");
//   work.kernel(step, grid, {.payload = scheduler.current(), …});
//   const unsigned kind = scheduler.add(work);
//   scheduler.start(stream);
//   auto producer = scheduler.producer();
//   producer.try_push({kind, payload});
//   producer.close();  // it ends once all jobs are done
#pragma once

#include <attacca/device/work_queue.hpp>
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>

namespace attacca {

/// One piece of work: which graph, and what for.
template <class Payload>
struct Job {
  std::uint32_t graph;
  Payload payload;
};

namespace detail {

/// Jobs are claimed this many at a time, a warp's lanes, and wait in the scheduler's own memory: so
/// most passes do not go round the queue's counters.
inline constexpr unsigned kJobsAtOnce = 32;
/// Looks for new jobs before the scheduler goes round without one: some 50 us.
inline constexpr unsigned kIdlePolls = 200;
inline constexpr std::uint32_t kMostWorks = 255;

/// A job with its graph found.
template <class Payload>
struct ReadyJob {
  DeviceGraph graph;    // null: there is none of that number
  std::uint32_t place;  // of the graph in ScheduleArgs::graphs
  Payload payload;
};
/// Jobs that were claimed and not yet launched. The warp that schedules reads them all at once,
/// beside the two counts, so that a pass waits for memory once.
template <class Payload>
struct ResidentState {
  unsigned next = 0;   // of `jobs`
  unsigned count = 0;  // how many of them were claimed
  ReadyJob<Payload> jobs[kJobsAtOnce];
};

}  // namespace detail

template <class Payload>
struct ScheduleArgs {
  device::WorkQueueRef<Job<Payload>> queue;
  detail::ResidentState<Payload>* state;
  Payload* current;
  /// [kMostWorks + 1]: the one that only schedules, then the works', then null.
  const DeviceGraph* graphs;
  std::uint32_t own;  // place there of the graph that this node is in
};

namespace detail {

/// Claims the next jobs, one lane each. `empty`: none for now, though some may come. Not inline:
/// most passes do not come here, and their code had better be short.
template <class Payload>
ATTACCA_HD ATTACCA_NOINLINE device::Pop refill(ScheduleArgs<Payload> a, unsigned lane,
                                               unsigned lanes) {
  ResidentState<Payload>& state = *a.state;
  typename device::WorkQueueRef<Job<Payload>>::Claim claim;
  device::Pop why = device::Pop::empty;
  if (lane == 0) {
    // The jobs claimed last are done: this node comes last in the last one's graph.
    if (state.count != 0) a.queue.done(state.count);
    device::NativeMemory::Backoff backoff;
    for (unsigned poll = 0; poll < kIdlePolls; ++poll) {
      claim = a.queue.claim_items(kJobsAtOnce);
      if (claim.count != 0) break;
      why = a.queue.why_none();
      if (why != device::Pop::empty) break;
      backoff.pause();
    }
    state.next = 0;
    state.count = claim.count;
  }
  claim = device::from_lane(claim, 0);
  for (unsigned at = lane; at < claim.count; at += lanes) {
    Job<Payload> job;
    if (!a.queue.take(claim.first + at, job)) break;
    const bool is_known = job.graph < kMostWorks;
    const std::uint32_t place = is_known ? job.graph + 1 : 0;
    state.jobs[at] = {is_known ? a.graphs[place] : DeviceGraph{}, place, job.payload};
  }
  if (claim.count == 0) return device::from_lane(why, 0);
  return a.queue.is_broken() ? device::Pop::broken : device::Pop::done;
}

/// The node that schedules: one warp, or one thread on the host.
template <class Payload>
struct ScheduleNext {
  static constexpr const char* name = "schedule next";
  using Args = ScheduleArgs<Payload>;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = sizeof(ResidentState<Payload>)}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    ResidentState<Payload>& state = *a.state;
    const unsigned lane = t.thread.x;
    const unsigned lanes = t.threads.x;
    ReadyJob<Payload> mine = state.jobs[lane];
    unsigned next = state.next;
    if (next == state.count) {
      const device::Pop refilled = refill(a, lane, lanes);
      if (refilled == device::Pop::empty) go_on(t, a, a.graphs[0], 0);
      if (refilled != device::Pop::done) return;
      mine = state.jobs[lane];
      next = 0;
    }
    const ReadyJob<Payload> job = lanes == 1 ? state.jobs[next] : device::from_lane(mine, next);
    if (lane != 0) return;
    if (!job.graph.exec) return a.queue.break_up();
    *a.current = job.payload;
    state.next = next + 1;
    go_on(t, a, job.graph, job.place);
  }

 private:
  ATTACCA_HD static void go_on(LaunchingThread& t, const Args& a, DeviceGraph graph,
                               std::uint32_t place) {
    if (place == a.own)
      t.relaunch_self();
    else
      t.launch(graph, LaunchMode::tail);
  }
};

[[noreturn]] void refuse_started(const char* what);
void check_work_count(std::size_t count);
/// The nodes of a graph that no other comes after.
std::vector<Node> last_nodes(Graph& graph);

}  // namespace detail

/// The kernel of schedulers with that payload; as make_kernel, in a file that nvcc compiles in a
/// CUDA build.
template <class Payload>
Kernel<ScheduleArgs<Payload>> make_scheduler() {
  return make_kernel<detail::ScheduleNext<Payload>>();
}

/// Owns the queue and the graphs. Not thread-safe; a producer is for one thread.
template <class Payload>
class ResidentScheduler {
  static_assert(std::is_trivially_copyable_v<Payload>);

 public:
  ResidentScheduler(const Device& device, const Kernel<ScheduleArgs<Payload>>& kernel,
                    const device::WorkQueueOptions& options)
      : device_(device),
        kernel_(kernel),
        queue_(device, options),
        state_(device, std::vector<detail::ResidentState<Payload>>(1)),
        current_(device, 1),
        graphs_(device, std::vector<DeviceGraph>(detail::kMostWorks + 1)) {}

  /// Where the graph of the job that runs finds its payload. Graphs that a job's graph fires must
  /// not look there: the next job may be.
  const Payload* current() const { return current_.data(); }

  /// A kind of work; the number that jobs name it by. Before `start`.
  unsigned add(Graph work) {
    if (scheduler_) detail::refuse_started("add a graph");
    detail::check_work_count(works_.size() + 1);
    const auto number = static_cast<unsigned>(works_.size());
    works_.push_back(with_scheduling(std::move(work), number + 1));
    return number;
  }
  /// Jobs to begin with. Before `start`, or when it has ended.
  void fill(std::span<const Job<Payload>> jobs) { queue_.fill(jobs); }
  /// For one host thread, while it runs.
  device::RingWriter<Job<Payload>> producer() { return queue_.producer(); }
  /// Device code may push jobs through this.
  device::WorkQueueRef<Job<Payload>> queue() const { return queue_.ref(); }

  /// Runs until every producer has closed and every job is done. Returns at once.
  void start(StreamRef stream) {
    if (!scheduler_) build();
    scheduler_->start(stream);
  }
  /// Whose patience ended while waiting for jobs: then scheduling stopped.
  std::vector<device::WaitReport> reports() const { return queue_.reports(); }

 private:
  DeviceExec with_scheduling(Graph graph, std::uint32_t place) {
    const std::vector<Node> last = detail::last_nodes(graph);
    graph
        .kernel(kernel_, Grid{{1}, {device_.is_cuda() ? detail::kJobsAtOnce : 1u}},
                {queue_.ref(), state_.data(), current_.data(), graphs_.data(), place})
        .after(last);
    return graph.instantiate_for_device();
  }
  void build() {
    detail::check_work_count(works_.size());
    scheduler_.emplace(with_scheduling(Graph(device_, "resident scheduler"), 0));
    std::vector<DeviceGraph> handles(detail::kMostWorks + 1);
    handles[0] = scheduler_->handle();
    for (std::size_t at = 0; at < works_.size(); ++at) handles[at + 1] = works_[at].handle();
    graphs_.write(handles);
  }

  Device device_;
  Kernel<ScheduleArgs<Payload>> kernel_;
  device::WorkQueue<Job<Payload>> queue_;
  Buffer<detail::ResidentState<Payload>> state_;
  Buffer<Payload> current_;
  Buffer<DeviceGraph> graphs_;
  std::vector<DeviceExec> works_;
  std::optional<DeviceExec> scheduler_;
};

}  // namespace attacca
