// device.cpp: the host's device: memory, streams and instances of graphs.
#include "backend/host/device.hpp"

#include <fmt/core.h>
#include <tbb/global_control.h>
#include <tbb/info.h>

#include <cstring>
#include <map>
#include <new>
#include <thread>

#include "backend/host/run.hpp"
#include "backend/host/stream.hpp"
#include "core/free_memory.hpp"

namespace attacca::host {

using namespace graph;

namespace {

constexpr std::size_t kAlignment = FreeBlock::kAlignment;

void* allocate_aligned(std::size_t bytes) { return make_block(bytes).release(); }
void free_aligned(void* address) noexcept { FreeBlock()(static_cast<std::byte*>(address)); }

/// oneTBB keeps to one worker per core unless a control allows more. Of several controls the
/// smallest counts, so there is one, as large as the largest device asked for.
void allow_workers(unsigned threads) {
  static std::mutex mutex;
  static std::unique_ptr<tbb::global_control> control;
  static auto allowed = static_cast<unsigned>(tbb::info::default_concurrency());
  const std::lock_guard lock(mutex);
  if (threads <= allowed) return;
  control.reset();
  control =
      std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, threads);
  allowed = threads;
}

class HostInstance final : public Instance {
 public:
  HostInstance(Workers& workers, const GraphData& data, Target target)
      : workers_(workers),
        graph_(std::make_shared<Launchable>(data, target == Target::device_launch)) {}
  ~HostInstance() override {
    // Launches by the host own a reference to the graph; launches by device code do not.
    if (graph_->is_device_graph) workers_.keep_while_busy(graph_);
  }

  void launch(StreamImpl& stream) override {
    HostStream& queue = queue_of(stream, "a graph launched");
    graph_->outstanding.fetch_add(1);
    queue.enqueue([&workers = workers_, &failures = queue.failures(), graph = graph_,
                   snapshot = take_snapshot(*graph_)]() mutable {
      struct Ended {
        Launchable& graph;
        ~Ended() {
          graph.outstanding.fetch_sub(1, std::memory_order_release);
          graph.outstanding.notify_all();
        }
      } ended{*graph};
      const std::lock_guard gate(graph->gate);
      graph->is_busy.store(true);
      run_launch(workers, *graph, std::move(snapshot), failures);
    });
  }

  /// Launches already made keep the settings they were made with. Where device code changes nodes,
  /// its changes must survive, so we wait for the launches instead.
  std::optional<Refusal> apply(const GraphData& data, const Changes& changes) override {
    if (graph_->plan.has_updatable_nodes)
      for (int count; (count = graph_->outstanding.load(std::memory_order_acquire)) != 0;)
        graph_->outstanding.wait(count);
    graph_->plan.apply(data, changes);
    return std::nullopt;
  }
  DeviceGraph handle() override { return {graph_.get()}; }
  std::size_t host_bytes() const override { return graph_->plan.bytes(); }

 private:
  Workers& workers_;
  std::shared_ptr<Launchable> graph_;
};

/// Blocks by size. A freed block is given out again once its stream has reached the free.
class HostPool final : public PoolImpl {
 public:
  HostPool(std::shared_ptr<DeviceImpl> device, Workers& workers)
      : device_(std::move(device)), workers_(workers) {}
  ~HostPool() override { workers_.keep_while_busy(state_); }

  void* allocate(StreamImpl&, std::size_t bytes) override {
    const std::size_t rounded =
        (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    const std::lock_guard lock(state_->mutex);
    const auto fit = state_->idle.lower_bound(rounded);
    if (fit != state_->idle.end() && fit->first <= 2 * rounded) {
      void* address = fit->second.get();
      Used& used = state_->in_use[address];
      used.block = std::move(fit->second);
      used.bytes = fit->first;
      state_->idle.erase(fit);
      return address;
    }
    Block block = make_block(rounded);
    void* address = block.get();
    state_->in_use.emplace(address, Used{std::move(block), rounded});
    state_->reserved += rounded;
    return address;
  }
  bool free(StreamImpl& stream, void* address) override {
    HostStream& queue = queue_of(stream, "pool memory freed");
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->in_use.find(address);
    if (found == state_->in_use.end() || found->second.is_being_freed) return false;
    queue.enqueue([state = state_, address] {
      const std::lock_guard guard(state->mutex);
      const auto used = state->in_use.find(address);
      state->idle.emplace(used->second.bytes, std::move(used->second.block));
      state->in_use.erase(used);
    });
    found->second.is_being_freed = true;
    return true;
  }
  std::size_t bytes_in_use() const override {
    const std::lock_guard lock(state_->mutex);
    std::size_t sum = 0;
    for (const auto& [address, used] : state_->in_use)
      if (!used.is_being_freed) sum += used.bytes;
    return sum;
  }
  std::size_t bytes_reserved() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->reserved;
  }

 private:
  struct Used {
    Block block;
    std::size_t bytes = 0;
    bool is_being_freed = false;
  };
  /// Outlives the pool while work that may use its memory is in flight.
  struct State {
    std::mutex mutex;
    std::multimap<std::size_t, Block> idle;
    std::map<void*, Used> in_use;
    std::size_t reserved = 0;
  };
  std::shared_ptr<DeviceImpl> device_;
  Workers& workers_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class HostDevice final : public DeviceImpl, public std::enable_shared_from_this<HostDevice> {
 public:
  HostDevice(unsigned threads, std::string name) : threads_(threads), name_(std::move(name)) {
    workers_.device = this;
    allow_workers(threads);
    if (threads) workers_.arena = std::make_unique<tbb::task_arena>(static_cast<int>(threads));
  }
  DeviceKind kind() const override {
    return threads_ ? DeviceKind::host_threads : DeviceKind::host_serial;
  }
  std::string name() const override { return name_; }
  std::unique_ptr<StreamImpl> make_stream(int) override {
    return std::make_unique<HostStream>(workers_);
  }
  std::shared_ptr<StreamImpl> borrow_stream(void*) override {
    throw BadArgument(fmt::format(
        "a CUDA stream borrowed for {}, which has none; use Stream(device), or a CUDA device",
        name_));
  }
  std::shared_ptr<EventImpl> make_event(bool) override { return std::make_shared<HostEvent>(); }
  std::unique_ptr<Instance> instantiate(const GraphData& data, Target target) override {
    return std::make_unique<HostInstance>(workers_, data, target);
  }
  std::unique_ptr<PoolImpl> make_pool() override {
    return std::make_unique<HostPool>(shared_from_this(), workers_);
  }
  void* allocate(std::size_t bytes) override { return allocate_aligned(bytes); }
  void free(void* address) noexcept override { free_aligned(address); }
  void* allocate_shared(std::size_t bytes) override { return allocate_aligned(bytes); }
  void free_shared(void* address) noexcept override { free_aligned(address); }
  std::size_t bytes_free() const override { return core::free_memory(); }
  void keep_while_busy(const std::shared_ptr<const void>& held) noexcept override {
    workers_.keep_while_busy(held);
  }
  void copy_now(void* to, const void* from, std::size_t bytes) override {
    if (bytes) std::memmove(to, from, bytes);
  }
  unsigned processors() const override { return std::max(1u, threads_); }
  Residency residency(const KernelInfo&, const Grid&) override {
    return {.processors = processors()};
  }
  std::uint64_t blocks_at_once(const KernelInfo& kernel, const Grid&) override {
    return kernel.traits.blocks_wait_on_host ? processors() : ~std::uint64_t{0};
  }
  bool observe(std::shared_ptr<Observer> observer) override {
    const std::lock_guard lock(workers_.observer_mutex);
    workers_.observer = std::move(observer);
    workers_.launches = 0;
    return true;
  }
  std::shared_ptr<Observer> observer() const override {
    const std::lock_guard lock(workers_.observer_mutex);
    return workers_.observer;
  }
  void set_nested_limits(std::size_t pending_launches, std::size_t) override {
    workers_.max_pending_spawns = pending_launches;
  }

 private:
  unsigned threads_;
  std::string name_;
  Workers workers_;
};

}  // namespace

Device Workers::self() const {
  return Access::device(static_cast<HostDevice*>(device)->shared_from_this());
}

std::shared_ptr<DeviceImpl> make_device(unsigned threads, std::string name) {
  return std::make_shared<HostDevice>(threads, std::move(name));
}

}  // namespace attacca::host
