// resident.hpp: a scheduler that lives on the device. Jobs wait in a queue, and every kind of work
// is a graph whose last node schedules: it takes the next job, stores its payload where the graphs
// read it and launches that job's graph as a tail, or relaunches its own. While there is no job, a
// graph of that node alone relaunches itself. The host makes one launch, however many jobs follow,
// and may add more while it runs.
//
//   const Scheduler<Payload> schedule = make_scheduler<Payload>();  // by nvcc
//
//   ResidentScheduler<Payload> scheduler(device, schedule, {.capacity = 1024, .producers = 1});
//   Graph work(device, "work");
//   work.kernel(step, grid, {.payload = scheduler.current(), …});
//   const unsigned kind = scheduler.add(work);
//   scheduler.start(stream);
//   auto producer = scheduler.producer();
//   producer.try_push({kind, payload});
//   producer.close();  // or its end of life; the scheduler ends once all jobs are done
#pragma once

#include <attacca/device/work_queue.hpp>
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>

namespace attacca {

/// One piece of work: the number of its graph, and the payload.
template <class Payload>
struct Job {
  std::uint32_t graph;
  Payload payload;
};

namespace detail {

/// Jobs are claimed this many at a time, one per lane of a warp, and wait in the scheduler's own
/// memory. So most passes do not touch the queue's counters.
inline constexpr unsigned kJobsAtOnce = 32;
/// Polls for new jobs before the scheduler relaunches without one: some 50 us.
inline constexpr unsigned kIdlePolls = 200;
inline constexpr std::uint32_t kMostWorks = 255;

/// A job with its graph found.
template <class Payload>
struct ReadyJob {
  DeviceGraph graph;    // null: no graph has that number
  std::uint32_t place;  // of the graph in ScheduleArgs::graphs, or the number that has none
  Payload payload;
};
/// Jobs that were claimed and not yet launched. The warp that schedules reads them all at once,
/// beside the two counts, so that a pass waits for memory once.
template <class Payload>
struct ResidentState {
  unsigned next = 0;   // of `jobs`
  unsigned count = 0;  // how many of them were claimed
  std::uint64_t idle_since = 0;
  ReadyJob<Payload> jobs[kJobsAtOnce];
};

template <class Payload>
struct ScheduleArgs {
  device::WorkQueueRef<Job<Payload>> queue;
  ResidentState<Payload>* state;
  Payload* current;
  /// [kMostWorks + 1]: the one that only schedules, then the works', then null.
  const DeviceGraph* graphs;
  std::uint32_t own;  // place there of the graph that this node is in
};

/// The result of a refill.
struct Refill {
  device::Pop why;      // `empty`: no job for now, though some may come
  std::uint32_t count;  // of jobs
};

/// Claims the next jobs, one lane each. Not inline: most passes skip this, and stay short.
template <class Payload>
ATTACCA_HD ATTACCA_NOINLINE Refill refill(ScheduleArgs<Payload> a, unsigned lane, unsigned lanes) {
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
    if (why == device::Pop::empty && claim.count == 0) {
      a.queue.watch_idle(state.idle_since);
      if (a.queue.is_cancelled()) why = device::Pop::broken;
    } else {
      state.idle_since = 0;
    }
    state.next = 0;
    state.count = claim.count;
  }
  claim = device::from_lane(claim, 0);
  bool has_all = true;
  for (unsigned at = lane; at < claim.count; at += lanes) {
    Job<Payload> job;
    has_all = a.queue.take(claim.first + at, job);
    if (!has_all) break;
    const DeviceGraph graph = job.graph < kMostWorks ? a.graphs[job.graph + 1] : DeviceGraph{};
    state.jobs[at] = {graph, graph.exec ? job.graph + 1 : job.graph, job.payload};
  }
  if (claim.count == 0) return {device::from_lane(why, 0), 0};
  return {device::all_lanes(has_all) ? device::Pop::done : device::Pop::broken, claim.count};
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
    unsigned count = state.count;
    // The host may cancel between two jobs, claimed ones included.
    if (device::from_lane(lane == 0 && a.queue.is_cancelled(), 0)) {
      if (lane == 0) leave(state, a, next);
      return a.queue.report_to(t);
    }
    ReadyJob<Payload> job;
    for (;;) {
      if (next == count) {
        const Refill got = refill(a, lane, lanes);
        if (got.why == device::Pop::empty) return go_on(t, a, a.graphs[0], 0);
        if (got.why != device::Pop::done) return a.queue.report_to(t);
        mine = state.jobs[lane];
        next = 0;
        count = got.count;
      }
      job = lanes == 1 ? state.jobs[next] : device::from_lane(mine, next);
      ++next;
      if (job.graph.exec) break;
      if (lane == 0) a.queue.refuse(job.place);  // and continue with the next job
    }
    if (lane != 0) return;
    *a.current = job.payload;
    state.next = next;
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
  /// Counts the jobs that ran before the end. Those claimed with them stay unfinished.
  ATTACCA_HD static void leave(ResidentState<Payload>& state, const Args& a, unsigned ran) {
    if (ran != 0) a.queue.done(ran);
    state.next = state.count = 0;
  }
};

[[noreturn]] void refuse_started(const char* what);
void check_work_count(std::size_t count);
/// Throws BadArgument for a job of a graph that was not added.
void check_job(std::uint32_t graph, std::size_t count);
device::WorkQueueOptions named_scheduler(device::WorkQueueOptions options);
void check_work_device(const Graph& work, const Device& device);
/// The nodes of a graph that no other node depends on.
std::vector<Node> last_nodes(Graph& graph);

}  // namespace detail

/// The kernel of schedulers with that payload; made by make_scheduler. A cheap value.
template <class Payload>
class Scheduler {
 public:
  explicit Scheduler(const Kernel<detail::ScheduleArgs<Payload>>& kernel) : kernel_(kernel) {}

 private:
  template <class>
  friend class ResidentScheduler;
  Kernel<detail::ScheduleArgs<Payload>> kernel_;
};

/// As make_kernel, in a file that nvcc compiles in a CUDA build.
template <class Payload>
Scheduler<Payload> make_scheduler() {
  return Scheduler<Payload>(make_kernel<detail::ScheduleNext<Payload>>());
}

/// Gives jobs from one host thread at a time to a running scheduler. Its destructor closes it.
template <class Payload>
class JobProducer {
 public:
  JobProducer(device::Producer<Job<Payload>> jobs, std::shared_ptr<const std::size_t> graphs)
      : jobs_(std::move(jobs)), graphs_(std::move(graphs)) {}

  /// Throws BadArgument for a graph that was not added.
  device::Push try_push(const Job<Payload>& job) {
    detail::check_job(job.graph, *graphs_);
    return jobs_.try_push(job);
  }
  bool is_open() const { return jobs_.is_open(); }
  /// No more will come. Closing again does nothing.
  void close() { jobs_.close(); }

 private:
  device::Producer<Job<Payload>> jobs_;
  std::shared_ptr<const std::size_t> graphs_;  // how many were added
};

/// Owns the queue and the graphs. Waiting for jobs is no fault: it runs until every producer has
/// closed and every job is done, or it is cancelled, or the queue breaks (device/work_queue.hpp
/// says when). `cancel`, `status` and `reports` may be called by any host thread while it runs; the
/// rest by one thread at a time.
template <class Payload>
class ResidentScheduler {
  static_assert(std::is_trivially_copyable_v<Payload>);

 public:
  ResidentScheduler(const Device& device, const Scheduler<Payload>& scheduler,
                    const device::WorkQueueOptions& options)
      : device_(device),
        kernel_(scheduler.kernel_),
        queue_(device, detail::named_scheduler(options)),
        state_(device, std::vector<detail::ResidentState<Payload>>(1)),
        current_(device, 1),
        graphs_(device, std::vector<DeviceGraph>(detail::kMostWorks + 1)) {}

  /// The payload of the running job, for its graph. Graphs that a job's graph fires must not read
  /// it: it may already hold the next job's.
  const Payload* current() const { return current_.data(); }

  /// Adds a kind of work and returns the number by which jobs name it. Call it before `start`, and
  /// before a producer is used.
  unsigned add(Graph work) {
    if (scheduler_) detail::refuse_started("add a graph");
    detail::check_work_device(work, device_);
    detail::check_work_count(works_.size() + 1);
    const auto number = static_cast<unsigned>(works_.size());
    works_.push_back(with_scheduling(std::move(work), number + 1));
    *count_ = works_.size();
    return number;
  }
  /// Puts in the first jobs, for graphs that were added. Call it before `start`, or when it has
  /// ended in any way.
  void fill(std::span<const Job<Payload>> jobs) {
    for (const Job<Payload>& job : jobs) detail::check_job(job.graph, works_.size());
    // Left behind by an early end.
    if (queue_.end() != device::QueueEnd::none)
      state_.write(std::vector<detail::ResidentState<Payload>>(1));
    queue_.fill(jobs);
  }
  /// For one host thread, while it runs. Throws BadArgument for more than were declared.
  JobProducer<Payload> producer() { return {queue_.producer(), count_}; }
  /// Device code may push jobs through this. A job for a graph that was not added is refused and
  /// counted, and later jobs run. When all is done, `synchronize` throws SourceBroken.
  device::WorkQueueRef<Job<Payload>> queue() const { return queue_.ref(); }

  /// Runs until every producer has closed and every job is done. Returns at once.
  void start(StreamRef stream) {
    if (!scheduler_) build();
    scheduler_->start(stream);
  }
  /// Ends it after the running job. `status` counts the jobs that were not done. Returns at once.
  void cancel() { queue_.cancel(); }
  /// Jobs accepted, done, waiting and taken. Up to 32 are claimed and reported done together, so
  /// `in_work` holds those beside the one that runs.
  device::WorkQueueStatus status() const { return queue_.status(); }
  /// The waits that timed out. Scheduling stops at the first.
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
  Kernel<detail::ScheduleArgs<Payload>> kernel_;
  device::WorkQueue<Job<Payload>> queue_;
  Buffer<detail::ResidentState<Payload>> state_;
  Buffer<Payload> current_;
  Buffer<DeviceGraph> graphs_;
  std::vector<DeviceExec> works_;
  std::shared_ptr<std::size_t> count_ = std::make_shared<std::size_t>(0);  // of works
  std::optional<DeviceExec> scheduler_;
};

}  // namespace attacca
