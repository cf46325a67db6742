// run.hpp: runs plans on the host: nodes on threads or one at a time, conditionals, device launches
// in their environments, spawned kernels. The rules are those of the CUDA executor.
#pragma once

#include <tbb/task_arena.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/host/plan.hpp"
#include "graph/executor.hpp"

namespace attacca::host {

class StreamQueue;

/// State that all runs on one device share.
struct Workers {
  Device self() const;
  /// Keeps `held` until all work now enqueued on the device's streams has ended. Does not keep it
  /// where there is none.
  void keep_while_busy(const std::shared_ptr<const void>& held);

  graph::DeviceImpl* device = nullptr;
  std::unique_ptr<tbb::task_arena> arena;  // null: one node at a time
  std::atomic<std::size_t> max_pending_spawns{2048};
  std::atomic<std::size_t> pending_spawns{0};
  mutable std::mutex observer_mutex;
  std::shared_ptr<graph::Observer> observer;
  std::uint64_t launches = 0;  // since observing began
  std::mutex streams_mutex;
  std::vector<StreamQueue*> streams;
};

/// A graph that can be launched, by the host or by device code; a DeviceGraph points to one.
struct Launchable {
  Launchable(const GraphData& data, bool is_for_device)
      : name(data.name), is_device_graph(is_for_device), plan(data), keeps(data.keeps) {}

  std::string name;
  bool is_device_graph;
  Plan plan;
  std::mutex gate;                   // held while it runs for the host: one launch at a time
  std::atomic<int> outstanding{0};   // launches made by the host and not yet ended
  std::atomic<bool> is_busy{false};  // running, or pending on the device
  std::atomic<bool> is_relaunching{false};
  std::vector<std::shared_ptr<const void>> keeps;  // its launches use them
};

/// The settings that one run of a graph reads.
using Snapshot = std::shared_ptr<const VersionedSettings::Snapshot>;
inline Snapshot take_snapshot(Launchable& graph) {
  return std::make_shared<const VersionedSettings::Snapshot>(graph.plan.settings);
}

/// While it lives the calling thread runs a call of the program's, in work of the stream that these
/// failures belong to.
class InCall {
 public:
  explicit InCall(const graph::Failures& of_stream) : of_(of_stream), outer_(innermost_) {
    innermost_ = this;
  }
  ~InCall() { innermost_ = outer_; }
  InCall(const InCall&) = delete;
  /// Whether the calling thread is in a call of that stream.
  static bool is_of(const graph::Failures& stream);

 private:
  static thread_local const InCall* innermost_;
  const graph::Failures& of_;
  const InCall* outer_;  // a call may wait for tasks of oneTBB, and run another meanwhile
};

/// Copies row by row. The rows of one copy do not overlap.
void move_rows(const graph::CopyPart& copy);

/// Runs `graph` and everything it launches. Host calls run while `failures` is empty.
void run_launch(Workers& workers, Launchable& graph, Snapshot snapshot, graph::Failures& failures);

/// Runs one kernel outside a graph, and the kernels it spawns. `graph` is the library call's graph,
/// or empty. False where its body threw; `failures` then holds that.
bool run_kernel(Workers& workers, const KernelInfo& kernel, const Grid& grid, const void* args,
                const std::string& graph, graph::Failures& failures);

/// Runs a host call, unless something failed before. An exception goes into `failures`.
void run_host_call(const std::string& name, const std::string& graph,
                   const std::function<void()>& call, graph::Failures& failures);

}  // namespace attacca::host
