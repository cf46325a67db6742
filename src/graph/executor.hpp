// executor.hpp: the interface of a backend: a device, its streams and events, instances of graphs.
#pragma once

#include <attacca/exec.hpp>
#include <attacca/l2.hpp>
#include <attacca/occupancy.hpp>
#include <attacca/tensor_map.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/data.hpp"
#include "graph/failures.hpp"

namespace attacca::graph {

class DeviceImpl;
class Marks;
class Recorder;

/// An event. One recorded during a capture stands for the stream's last nodes (`frontier`).
class EventImpl {
 public:
  virtual ~EventImpl() = default;
  /// Whether the last `record` was reached.
  virtual bool is_reached() = 0;
  /// REQUIRES: both reached, timed and of this device.
  virtual std::chrono::duration<double> since(EventImpl& start) = 0;

  std::optional<Device> device;  // set by Event
  bool is_timed = false;
  bool is_recorded = false;
  bool was_captured = false;
  std::weak_ptr<Recorder> recorder;
  std::vector<NodeId> frontier;
};

class StreamImpl {
 public:
  virtual ~StreamImpl() = default;
  virtual void kernel(const KernelInfo& kernel, const Grid& grid, const void* args) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// REQUIRES: several rows that are not contiguous.
  virtual void copy_rows(const CopyPart& copy) = 0;
  virtual void fill(void* to, std::uint8_t value, std::size_t bytes) = 0;
  virtual void host(const std::string& name, std::function<void()> call) = 0;
  virtual void record(EventImpl& event) = 0;
  virtual void wait(EventImpl& event) = 0;
  virtual void synchronize() = 0;
  /// Whether something has failed that `synchronize` would throw, as far as is known by now. Work
  /// may still run.
  virtual bool has_failed() = 0;
  /// The backend's own stream, for a caller who may enqueue at any time from now on.
  virtual void* native() { return nullptr; }
  /// For a caller who enqueues all its work before the stream is synchronized next.
  virtual void* native_for_a_call() { return nullptr; }
};

/// A stream, and the capture it takes part in, if any.
struct StreamState {
  StreamState(Device on, std::shared_ptr<StreamImpl> by)
      : device(std::move(on)), impl(std::move(by)) {}
  StreamState(const StreamState&) = delete;
  ~StreamState();

  Device device;
  std::shared_ptr<StreamImpl> impl;  // shared: the device keeps borrowed ones
  Recorder* recorder = nullptr;
  std::vector<NodeId> frontier;
};

/// One execution of a node by the host executor, or what one more thread computed of it. The texts
/// are borrowed for the call.
struct Execution {
  std::string_view node;
  std::string_view graph;    // empty outside graphs
  std::uint64_t launch = 0;  // counted from 1 since observing began; 0: inside a library call
  std::uint64_t iteration =
      0;  // of the innermost WHILE around it, counted from 1; 0: there is none
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  int worker = 0;
  std::int64_t part_of = 0;  // when the kernel that this is a part of began; 0: it is a whole node
  const KernelInfo* kernel = nullptr;  // null: a part, or no kernel
  const void* args = nullptr;          // of the kernel
};

/// Is told of every node that the host executor ran, or of every launch. Called from many threads,
/// each time from the one that ran it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void ran(const Execution& execution) = 0;
  /// False: it is told of launches only, under the names of their graphs, and of kernels that were
  /// launched by themselves.
  virtual bool sees_nodes() const { return true; }
  /// What marks graphs that are instantiated while this observes; null: nothing does.
  virtual std::shared_ptr<Marks> marks() { return nullptr; }

  // CUDA tells no times. It tells what it made, so that records of another source can be named, and
  // records events around launches.

  /// A node was made; `native` is its cudaGraphNode_t. Times and numbers of `node` are not set.
  virtual void built([[maybe_unused]] void* native, [[maybe_unused]] const Execution& node) {}
  /// Whether `launched` is called.
  virtual bool times_launches() const { return false; }
  virtual void launched([[maybe_unused]] std::string_view graph,
                        [[maybe_unused]] const StreamImpl& stream,
                        [[maybe_unused]] std::shared_ptr<EventImpl> start,
                        [[maybe_unused]] std::shared_ptr<EventImpl> end) {}
};

/// Why a change could not be made in place.
struct Refusal {
  std::string reason;
  std::string node;
};

/// Nodes that differ from what an instance last read.
struct Changes {
  std::span<const NodeId> parameters;
  std::span<const NodeId> switches;  // switched on or off
};

/// A graph instantiated by a backend. It keeps no reference to the data it was made from; to change
/// something, the caller changes the data and tells the instance which nodes to read again.
/// Launches already made are not affected.
class Instance {
 public:
  virtual ~Instance() = default;
  virtual void launch(StreamImpl& stream) = 0;
  /// When it refuses or throws, it may have read only some of the nodes: apply the old data, or
  /// instantiate anew.
  virtual std::optional<Refusal> apply(const GraphData& data, const Changes& changes) = 0;
  /// Makes changes visible to device launches. Called after every `apply`.
  virtual void upload() {}
  virtual DeviceGraph handle() = 0;
  /// The driver's own exec; null on the host.
  virtual void* native() { return nullptr; }
  virtual std::size_t host_bytes() const = 0;
};

/// Whether a window that passed its checks does anything on a device with this cache.
bool has_effect(const L2Window& window, const L2Cache& cache);

class PoolImpl {
 public:
  virtual ~PoolImpl() = default;
  virtual void* allocate(StreamImpl& stream, std::size_t bytes) = 0;
  /// False where this pool did not give out `address`.
  virtual bool free(StreamImpl& stream, void* address) = 0;
  virtual std::size_t bytes_in_use() const = 0;
  virtual std::size_t bytes_reserved() const = 0;
};

class DeviceImpl {
 public:
  virtual ~DeviceImpl() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<StreamImpl> make_stream(int priority) = 0;
  /// Returns one object per native stream. Throws BadArgument on devices without native streams.
  virtual std::shared_ptr<StreamImpl> borrow_stream(void* native) = 0;
  virtual std::shared_ptr<EventImpl> make_event(bool is_timed) = 0;
  virtual std::unique_ptr<Instance> instantiate(const GraphData& data, Target target) = 0;
  /// Appends the nodes of a cudaGraph_t. CUDA devices only.
  virtual void adopt(void* native_graph, Graph& into);
  virtual std::unique_ptr<PoolImpl> make_pool() = 0;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* address) noexcept = 0;
  virtual void* allocate_shared(std::size_t bytes) = 0;
  virtual void free_shared(void* address) noexcept = 0;
  virtual std::size_t bytes_free() const = 0;
  /// Calls `work` while the device is the calling thread's current one.
  virtual void run_here(const std::function<void()>& work) { work(); }
  /// Keeps `held` for work that was enqueued: on each stream that has work in flight, until that
  /// has ended and, on CUDA, the stream was synchronized. Does not keep it where no stream has.
  virtual void keep_while_busy(const std::shared_ptr<const void>& held) noexcept = 0;
  virtual void copy_now(void* to, const void* from, std::size_t bytes) = 0;
  /// Copies memory that running kernels may be writing to the host. Waits for no stream.
  virtual void peek(void* to, const void* from, std::size_t bytes) { copy_now(to, from, bytes); }
  /// SMs of a GPU, workers of the host.
  virtual unsigned processors() const = 0;
  /// REQUIRES: a grid that `check_grid` accepts. May find that no block fits.
  virtual Residency residency(const KernelInfo& kernel, const Grid& grid) = 0;
  /// Blocks of a kernel that run at once when nothing else runs. The largest number where no block
  /// of its body on this device waits for another. REQUIRES: as `residency`.
  virtual std::uint64_t blocks_at_once(const KernelInfo& kernel, const Grid& grid) = 0;
  /// For l2.hpp. The defaults are for devices whose cache cannot be steered.
  virtual L2Cache l2_cache() { return {}; }
  virtual void set_aside_l2(std::size_t) {}
  virtual L2Window l2_window(StreamImpl&) { return {}; }
  virtual void set_l2_window(StreamImpl&, const L2Window&) {}
  virtual void reset_l2(StreamImpl&) {}
  /// Major times ten plus minor; 0 on the host.
  virtual int compute_capability() const { return 0; }
  virtual TensorMap tensor_map(const void* data, std::span<const TensorDimension> dimensions);
  /// Null stops observing. False where `ran` is not called, which is on CUDA.
  virtual bool observe(std::shared_ptr<Observer> observer) = 0;
  /// Null: there is none.
  virtual std::shared_ptr<Observer> observer() const { return nullptr; }
  virtual void set_nested_limits(std::size_t pending_launches, std::size_t stack_bytes) = 0;
};

}  // namespace attacca::graph
