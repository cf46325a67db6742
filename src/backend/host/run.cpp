// run.cpp: runs plans on three levels. A Launch is everything that one host launch starts; an
// Environment is one execution of one graph in it; a Frame is one execution of one kernel.
#include "backend/host/run.hpp"

#include <fmt/core.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <cstring>
#include <deque>
#include <thread>

#include "backend/host/handoff.hpp"
#include "backend/host/inline_stream.hpp"
#include "core/clock.hpp"

namespace attacca::host {

using namespace graph;
using attacca::detail::LaunchCounts;

namespace {

/// Below this many threads a kernel is not worth splitting over workers.
constexpr std::uint64_t kSplitThreads = 8192;

/// Everything that one host launch starts. A kernel's report or an exception from a host call stops
/// later host calls only, as on CUDA. An exception from a kernel's body, which CUDA does not have,
/// stops everything that has not started.
class Launch {
 public:
  /// `is_counted`: it is not part of another launch.
  Launch(Workers& workers, Failures& failures, bool is_counted = true)
      : workers_(workers), failures_(failures) {
    const std::lock_guard lock(workers.observer_mutex);
    observer_ = workers.observer;
    sees_nodes_ = observer_ && observer_->sees_nodes();
    if (observer_ && is_counted) number_ = ++workers.launches;
  }

  Workers& workers() { return workers_; }
  Failures& failures() { return failures_; }
  bool is_parallel() const { return workers_.arena != nullptr; }
  /// Null if nobody wants to see nodes.
  Observer* observer() const { return sees_nodes_ ? observer_.get() : nullptr; }
  /// Null if nobody wants to see launches instead of nodes.
  Observer* launch_observer() const { return sees_nodes_ ? nullptr : observer_.get(); }
  std::uint64_t number() const { return number_; }  // for the observer

  void report(Failure failure) { failures_.add(std::move(failure)); }
  void stop() { is_stopped_.store(true, std::memory_order_relaxed); }
  bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }

 private:
  Workers& workers_;
  Failures& failures_;
  std::shared_ptr<Observer> observer_;
  bool sees_nodes_ = false;
  std::uint64_t number_ = 0;
  std::atomic<bool> is_stopped_{false};
};

/// Tasks that run side by side if the device has threads, else one after another in `wait`.
class Tasks {
 public:
  explicit Tasks(Launch& launch) : launch_(launch) {}
  ~Tasks() { wait(); }

  void run(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    if (!launch_.is_parallel()) return;
    hand_over(this);
    group_.run(Carried{this, [this] {
                         run_next();
                         hand_over(this);
                       }});
  }
  void wait() {
    if (launch_.is_parallel()) {
      group_.wait();
      taken_over(this);
    } else {
      while (run_next()) continue;
    }
  }

 private:
  /// Runs the oldest task that waits. False where there is none.
  bool run_next() {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return false;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
    return true;
  }

  Launch& launch_;
  tbb::task_group group_;
  std::mutex mutex_;
  std::deque<std::function<void()>> queue_;
};

class Environment;
void run_environments(Launch& launch, Environment* parent, Launchable& first, Snapshot snapshot);

/// One execution of one graph. It ends when its nodes and the graphs it fired have ended.
class Environment {
 public:
  Environment(Launch& launch, Environment* parent, Launchable& graph, Version version)
      : launch_(launch),
        parent_(parent),
        graph_(&graph),
        plan_(graph.plan),
        version_(version),
        children_(launch) {}

  void run() {
    plan_.reset_conditions();
    run_scope(0, 0);
    children_.wait();
  }
  void wait_for_children() { children_.wait(); }
  std::vector<Launchable*> take_tails() { return std::move(tails_); }

  LaunchStatus launch(Launchable& graph, LaunchMode mode) {
    const std::lock_guard lock(mutex_);
    const LaunchStatus status = attacca::detail::charge(counts_, mode);
    if (status != LaunchStatus::launched) return status;
    if (graph.is_busy.exchange(true)) return LaunchStatus::busy;
    if (mode == LaunchMode::tail) {
      tails_.push_back(&graph);
    } else {
      // A sibling belongs to the environment that launched us. The host's own launch has an
      // outermost environment for that.
      Environment* home = mode == LaunchMode::sibling ? parent_ : this;
      home->children_.run(
          [home, &graph] { run_environments(home->launch_, home, graph, take_snapshot(graph)); });
    }
    return LaunchStatus::launched;
  }

  LaunchStatus relaunch_self() {
    const std::lock_guard lock(mutex_);
    if (!graph_->is_device_graph) return LaunchStatus::not_a_device_graph;
    const LaunchStatus status = attacca::detail::charge_relaunch(counts_);
    if (status != LaunchStatus::launched) return status;
    graph_->is_relaunching.store(true);
    tails_.push_back(graph_);
    return LaunchStatus::launched;
  }

  const std::string& graph_name() const { return graph_->name; }
  const void* handle() const { return graph_; }

 private:
  /// `iteration` counts the passes of the innermost WHILE around the scope; the observer is told.
  void run_scope(std::uint32_t index, std::uint64_t iteration) {
    const PlanScope& scope = plan_.scopes[index];
    if (!launch_.is_parallel() || scope.is_sequence) {
      for (const std::uint32_t node : scope.order) {
        if (launch_.is_stopped()) return;
        run_node(node, iteration);
      }
      return;
    }
    tbb::task_group group;
    hand_over(&group);
    for (std::size_t at = 1; at < scope.roots.size(); ++at)
      spawn(scope.roots[at], iteration, group, &group);
    run_from(scope.roots.front(), iteration, group);
    group.wait();
    taken_over(&group);
  }

  /// REQUIRES: hand_over(token).
  void spawn(std::uint32_t node, std::uint64_t iteration, tbb::task_group& group,
             const void* token) {
    group.run(
        Carried{token, [this, &group, node, iteration] { run_from(node, iteration, group); }});
  }

  /// Runs a node and then, on this thread, one of the nodes it made ready; the others are spawned.
  void run_from(std::uint32_t node, std::uint64_t iteration, tbb::task_group& group) {
    for (;;) {
      // The count is not touched again before the next run, which starts after this one.
      plan_.pending[node].store(plan_.dependency_count[node], std::memory_order_relaxed);
      if (!launch_.is_stopped()) run_node(node, iteration);
      std::uint32_t next = kNone;
      const std::uint32_t last = plan_.first_successor[node + 1];
      for (std::uint32_t at = plan_.first_successor[node]; at < last; ++at) {
        const std::uint32_t consumer = plan_.successors[at];
        // acq_rel: the thread that takes the count to zero sees the writes of every producer.
        if (plan_.pending[consumer].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (next == kNone) {
          next = consumer;
        } else {
          const void* token = &plan_.pending[consumer];
          hand_over(token);
          spawn(consumer, iteration, group, token);
        }
      }
      if (next == kNone) {
        hand_over(&group);
        return;
      }
      node = next;
    }
  }

  void run_node(std::uint32_t index, std::uint64_t iteration);
  void run_part(const PlanNode& node, const Part& part, std::uint64_t iteration);
  void run_conditional(const PlanNode& node, const ConditionalPart& part, std::uint64_t iteration);

  Launch& launch_;
  Environment* parent_;
  Launchable* graph_;
  Plan& plan_;
  Version version_;
  std::mutex mutex_;
  LaunchCounts counts_;
  std::vector<Launchable*> tails_;
  Tasks children_;
};

/// One execution of one kernel and the kernels it spawned: first those fired, then the tails.
class Frame final : public attacca::detail::HostFrame {
 public:
  Frame(Launch& launch, Environment* environment, const char* kernel, const std::string& graph)
      : launch_(launch), environment_(environment), kernel_(kernel), graph_(graph) {}

  void run(const KernelInfo& kernel, const Grid& grid, const void* args) {
    waits_for_ = kernel.waits_for;
    has_task_per_block_ = kernel.traits.is_persistent || kernel.traits.blocks_wait_on_host ||
                          kernel.traits.is_blockwise;
    try {
      kernel.host(*this, grid, args);
      report_broken_source();
      if (kernel.traits.waits && must_wait && !has_waited_)
        throw Error("it declares waits = true but returned without calling wait_for_producers");
    } catch (...) {
      // The kernels it spawned will not run, so they are no longer pending.
      launch_.workers().pending_spawns.fetch_sub(fired_.size() + tails_.size());
      throw;
    }
    if (!fired_.empty()) {
      Tasks tasks(launch_);
      for (Spawned& child : fired_) tasks.run([this, &child] { run_spawned(child); });
      tasks.wait();
    }
    for (Spawned& child : tails_) run_spawned(child);
  }

  void run_blocks(std::uint64_t blocks, BlockRange range, void* context) override {
    const bool is_worth_it = has_task_per_block_ || blocks * threads_per_block >= kSplitThreads;
    if (!launch_.is_parallel() || blocks < 2 || !is_worth_it) {
      range(context, 0, blocks);
      return;
    }
    const std::int64_t start = launch_.observer() ? now_ns() : 0;
    const std::thread::id caller = std::this_thread::get_id();
    const Carried run_part{
        context,
        [this, range, context, start, caller](const tbb::blocked_range<std::uint64_t>& part) {
          if (start == 0 || std::this_thread::get_id() == caller)
            range(context, part.begin(), part.end());
          else
            run_observed(start, [&] { range(context, part.begin(), part.end()); });
          hand_over(context);
        }};
    const tbb::blocked_range<std::uint64_t> all(0, blocks);
    hand_over(context);
    if (has_task_per_block_)
      tbb::parallel_for(all, run_part, tbb::simple_partitioner());  // a task for each block
    else
      tbb::parallel_for(all, run_part);
    taken_over(context);
  }
  LaunchStatus launch(DeviceGraph graph, LaunchMode mode) override {
    if (!environment_ || !graph.exec) return report(LaunchStatus::not_a_device_graph);
    attacca::detail::record_launch(site, graph.exec, mode);
    return report(environment_->launch(*static_cast<Launchable*>(graph.exec), mode));
  }
  LaunchStatus relaunch_self() override {
    if (!environment_) return report(LaunchStatus::not_a_device_graph);
    attacca::detail::record_launch(site, environment_->handle(), LaunchMode::tail);
    return report(environment_->relaunch_self());
  }
  LaunchStatus spawn(const KernelInfo& kernel, const Grid& grid, const void* args,
                     bool is_tail) override {
    const attacca::detail::SpawnFacts facts{grid.blocks, grid.threads, grid.shared_bytes};
    if (!attacca::detail::can_be_spawned(facts)) {
      KernelFault fault = fault_of(LaunchStatus::invalid_grid);
      fault.spawn = facts;
      launch_.report(failure_of(fault));
      return LaunchStatus::invalid_grid;
    }
    Workers& workers = launch_.workers();
    if (workers.pending_spawns.fetch_add(1) >= workers.max_pending_spawns.load()) {
      workers.pending_spawns.fetch_sub(1);
      return report(LaunchStatus::spawn_budget);
    }
    const auto* bytes = static_cast<const std::byte*>(args);
    (is_tail ? tails_ : fired_).push_back({&kernel, grid, {bytes, bytes + kernel.args_size}});
    return LaunchStatus::launched;
  }
  void waited() override { has_waited_.store(true, std::memory_order_relaxed); }
  void give_up(const attacca::detail::WaitFacts& facts) override {
    KernelFault fault = fault_of(LaunchStatus::wait_overdue);
    fault.wait = facts;
    launch_.report(failure_of(fault));
  }
  void source_broke(unsigned source) override {
    broken_source_.store(source, std::memory_order_relaxed);
  }

  bool must_wait = false;
  std::uint64_t threads_per_block = 1;
  std::uint64_t iteration = 0;  // for the observer
  device::SiteRef site = {};    // that records launches

 private:
  /// A part of this kernel on another thread than the one that runs the node.
  template <class F>
  void run_observed(std::int64_t kernel_start, F part) {
    const std::int64_t start = now_ns();
    part();
    launch_.observer()->ran({.node = kernel_,
                             .graph = graph_,
                             .launch = launch_.number(),
                             .iteration = iteration,
                             .start_ns = start,
                             .end_ns = now_ns(),
                             .worker = tbb::this_task_arena::current_thread_index(),
                             .part_of = kernel_start});
  }

  /// Called when all blocks have ended: only then can the source say how much was done.
  void report_broken_source() {
    const unsigned source = broken_source_.load(std::memory_order_relaxed);
    if (source == 0) return;
    KernelFault fault = fault_of(LaunchStatus::source_broken);
    fault.detail = source;
    launch_.report(failure_of(fault));
  }
  struct Spawned {
    const KernelInfo* kernel;
    Grid grid;
    std::vector<std::byte> args;
  };

  void run_spawned(const Spawned& child) {
    if (!launch_.is_stopped()) {
      try {
        // It reports under the name of the node that spawned it, as on CUDA.
        Frame frame(launch_, nullptr, kernel_, graph_);
        frame.threads_per_block = child.grid.threads.count();
        frame.iteration = iteration;
        frame.run(*child.kernel, child.grid, child.args.data());
      } catch (...) {
        launch_.report(failure_of_current_exception(child.kernel->name, graph_));
        launch_.stop();
      }
    }
    launch_.workers().pending_spawns.fetch_sub(1);
  }

  LaunchStatus report(LaunchStatus status) {
    if (status != LaunchStatus::launched) launch_.report(failure_of(fault_of(status)));
    return status;
  }
  KernelFault fault_of(LaunchStatus status) const {
    return {.kernel = kernel_,
            .graph = graph_,
            .status = status,
            .waits_for = waits_for_,
            .spawn_limit = launch_.workers().max_pending_spawns};
  }

  Launch& launch_;
  Environment* environment_;
  const char* kernel_;
  const std::string& graph_;
  std::span<const char* const> waits_for_;
  std::atomic<bool> has_waited_{false};
  std::atomic<unsigned> broken_source_{0};  // numbers start at 1
  bool has_task_per_block_ = false;  // blocks may wait for each other, or each is worth a thread
  std::vector<Spawned> fired_;
  std::vector<Spawned> tails_;
};

void Environment::run_node(std::uint32_t index, std::uint64_t iteration) {
  const Settings& settings = plan_.settings.at(index, version_);
  if (!settings.is_enabled) return;
  const PlanNode& node = plan_.nodes[index];
  Observer* observer = launch_.observer();
  const bool is_observed = observer && !std::holds_alternative<ConditionalPart>(settings.part);
  const std::int64_t start = is_observed ? now_ns() : 0;
  try {
    run_part(node, settings.part, iteration);
  } catch (const StoppedInside&) {
    launch_.stop();
  } catch (...) {
    launch_.report(failure_of_current_exception(node.name, graph_name()));
    launch_.stop();
  }
  if (!is_observed) return;
  const auto* kernel = std::get_if<KernelPart>(&settings.part);
  observer->ran({.node = node.name,
                 .graph = graph_name(),
                 .launch = launch_.number(),
                 .iteration = iteration,
                 .start_ns = start,
                 .end_ns = now_ns(),
                 .worker = tbb::this_task_arena::current_thread_index(),
                 .kernel = kernel ? kernel->info : nullptr,
                 .args = kernel ? kernel->args.data() : nullptr});
}

void Environment::run_part(const PlanNode& node, const Part& part, std::uint64_t iteration) {
  if (const auto* kernel = std::get_if<KernelPart>(&part)) {
    Frame frame(launch_, this, node.name.c_str(), graph_name());
    frame.must_wait = node.has_programmatic_producer;
    frame.threads_per_block = kernel->grid.threads.count();
    frame.iteration = iteration;
    frame.site = node.site;
    frame.run(*kernel->info, kernel->grid, kernel->args.data());
  } else if (const auto* copy = std::get_if<CopyPart>(&part)) {
    move_rows(*copy);
  } else if (const auto* fill = std::get_if<FillPart>(&part)) {
    if (fill->bytes) std::memset(fill->to, fill->value, fill->bytes);
  } else if (const auto* host = std::get_if<HostPart>(&part)) {
    run_host_call(node.name, graph_name(), host->call, launch_.failures());
  } else if (const auto* library = std::get_if<LibraryPart>(&part)) {
    InlineStream::run(launch_.workers(), library->enqueue, graph_name(), launch_.failures());
  } else if (const auto* conditional = std::get_if<ConditionalPart>(&part)) {
    run_conditional(node, *conditional, iteration);
  }
}

void Environment::run_conditional(const PlanNode& node, const ConditionalPart& part,
                                  std::uint64_t iteration) {
  const auto& value = *reinterpret_cast<const unsigned*>(part.condition);
  switch (part.kind) {
    case ConditionalKind::if_:
      if (value)
        run_scope(node.bodies[0], iteration);
      else if (node.bodies.size() > 1)
        run_scope(node.bodies[1], iteration);
      break;
    case ConditionalKind::while_:
      for (std::uint64_t pass = 1; value && !launch_.is_stopped(); ++pass)
        run_scope(node.bodies[0], pass);
      break;
    case ConditionalKind::switch_:
      if (value < node.bodies.size()) run_scope(node.bodies[value], iteration);
      break;
  }
}

/// Runs a graph, then its tails. The tails of a tail run before the next tail.
void run_environments(Launch& launch, Environment* parent, Launchable& first, Snapshot snapshot) {
  std::deque<Launchable*> todo{&first};
  while (!todo.empty()) {
    Launchable& graph = *todo.front();
    todo.pop_front();
    if (!snapshot) snapshot = take_snapshot(graph);
    std::vector<Launchable*> tails;
    graph.is_relaunching.store(false);
    if (!launch.is_stopped()) {
      Environment environment(launch, parent, graph, snapshot->version());
      environment.run();
      tails = environment.take_tails();
    }
    snapshot.reset();
    // A graph that asked to run again stays busy until then.
    if (!graph.is_relaunching.load()) graph.is_busy.store(false);
    todo.insert(todo.begin(), tails.begin(), tails.end());
  }
}

template <class F>
void inside_arena(Workers& workers, F work) {
  if (!workers.arena) return work();
  // If the arena is full, one of its threads does the work while this one waits.
  hand_over(&work);
  workers.arena->execute(Carried{&work, [&work] {
                                   work();
                                   hand_over(&work);
                                 }});
  taken_over(&work);
}

}  // namespace

void move_rows(const CopyPart& copy) {
  auto* to = static_cast<std::byte*>(copy.to);
  const auto* from = static_cast<const std::byte*>(copy.from);
  for (std::size_t row = 0; row < copy.rows; ++row)
    std::memmove(to + row * copy.to_pitch, from + row * copy.from_pitch, copy.bytes);
}

void run_launch(Workers& workers, Launchable& graph, Snapshot snapshot, Failures& failures) {
  Launch launch(workers, failures);
  const std::int64_t start = launch.launch_observer() ? now_ns() : 0;
  inside_arena(workers, [&] {
    // Stands for the host's launch, so that siblings of the outermost graph have a parent.
    Environment outermost(launch, nullptr, graph, snapshot->version());
    run_environments(launch, &outermost, graph, std::move(snapshot));
    outermost.wait_for_children();
  });
  if (launch.launch_observer())
    launch.launch_observer()->ran({.node = graph.name,
                                   .graph = graph.name,
                                   .launch = launch.number(),
                                   .start_ns = start,
                                   .end_ns = now_ns()});
}

bool run_kernel(Workers& workers, const KernelInfo& kernel, const Grid& grid, const void* args,
                const std::string& graph, Failures& failures) {
  Launch launch(workers, failures, graph.empty());
  Observer* const observer =
      graph.empty() && launch.launch_observer() ? launch.launch_observer() : launch.observer();
  inside_arena(workers, [&] {
    const std::int64_t start = observer ? now_ns() : 0;
    Frame frame(launch, nullptr, kernel.name, graph);
    frame.threads_per_block = grid.threads.count();
    try {
      frame.run(kernel, grid, args);
    } catch (...) {
      launch.report(failure_of_current_exception(kernel.name, graph));
      launch.stop();
    }
    if (observer)
      observer->ran({.node = kernel.name,
                     .graph = graph,
                     .launch = launch.number(),
                     .start_ns = start,
                     .end_ns = now_ns(),
                     .kernel = &kernel,
                     .args = args});
  });
  return !launch.is_stopped();
}

thread_local const InCall* InCall::innermost_ = nullptr;

bool InCall::is_of(const Failures& stream) {
  for (const InCall* call = innermost_; call; call = call->outer_)
    if (&call->of_ == &stream) return true;
  return false;
}

void run_host_call(const std::string& name, const std::string& graph,
                   const std::function<void()>& call, Failures& failures) {
  if (failures.any()) return;
  const InCall in_call(failures);
  try {
    call();
  } catch (...) {
    failures.add(failure_of_current_exception(name, graph));
  }
}

}  // namespace attacca::host
