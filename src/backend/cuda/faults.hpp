// faults.hpp: how failures that happen on the device or in host calls reach `synchronize`. A
// failure lands in the FaultBox of the exec or stream it happened in, and goes from there to the
// streams that launched the exec and have not synchronized since. docs/failures.md has the rule.
#pragma once

#include <atomic>
#include <attacca/kernel.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/failures.hpp"

namespace attacca::cuda {

class FaultBox;
class StreamFaults;

/// One failure. A kernel's report gets its words later, since finding them may call CUDA.
using Fault = std::variant<graph::Failure, graph::KernelFault>;

/// Pinned memory for the records that kernels write. Thread-safe; lives as long as its device.
class FaultMemory {
 public:
  attacca::detail::FaultRecord* take();
  void give_back(attacca::detail::FaultRecord* record) noexcept;

 private:
  static constexpr std::size_t kRecordsAtOnce = 1024;
  std::mutex mutex_;
  std::vector<attacca::detail::FaultRecord*> free_;  // blocks are never freed: devices live on
};

/// Decides which streams hear of a failure on one device. Its mutex guards the boxes and streams of
/// that device. Host calls take it on the driver's threads, so nobody calls CUDA while holding it.
class FaultLedger {
 public:
  explicit FaultLedger(const std::atomic<std::size_t>& spawn_limit) : spawn_limit_(spawn_limit) {}
  /// Device code launches that graph, from an unknown stream. So its failures go to all streams
  /// that launched a graph with launching kernels.
  void add_device_graph(const std::shared_ptr<FaultBox>& box);

  using Boxes = std::vector<std::shared_ptr<FaultBox>>;

 private:
  friend class FaultBox;
  friend class StreamFaults;
  Boxes device_graphs();
  void deliver(FaultBox& box);

  const std::atomic<std::size_t>& spawn_limit_;
  FaultMemory memory_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<FaultBox>> device_graphs_;
  std::vector<StreamFaults*> launchers_;  // streams that launched graphs with launching kernels
};

/// The failures of an exec or a stream, until the streams they concern are told. Thread-safe.
class FaultBox {
 public:
  explicit FaultBox(FaultLedger& ledger) : ledger_(ledger) {}
  ~FaultBox();
  FaultBox(const FaultBox&) = delete;
  FaultBox& operator=(const FaultBox&) = delete;

  /// The second parameter of a kernel that may report. Nodes of one name and kernel share a record.
  attacca::detail::LaunchPort port(const KernelInfo& kernel, const std::string& node,
                                   const std::string& graph);

  /// A host call's failure.
  void put(graph::Failure failure);
  /// Whether there is a failure, here or on a stream that launched this, that `synchronize` has not
  /// thrown yet.
  bool holds_host_calls_back();

 private:
  friend class FaultLedger;
  friend class StreamFaults;
  struct Reporter {
    std::string node;
    std::string graph;
    std::span<const char* const> waits_for;
    attacca::detail::FaultRecord* record;
  };
  std::vector<Fault> take();  // REQUIRES: the ledger's mutex

  FaultLedger& ledger_;
  bool is_device_graph_ = false;
  std::vector<StreamFaults*> watchers_;
  std::vector<graph::Failure> failures_;  // from host calls
  std::vector<Reporter> reporters_;
};

/// The failures that the next `synchronize` of a stream throws. One thread at a time, as the
/// stream.
class StreamFaults {
 public:
  explicit StreamFaults(FaultLedger& ledger);
  ~StreamFaults();
  StreamFaults(const StreamFaults&) = delete;
  StreamFaults& operator=(const StreamFaults&) = delete;

  /// For kernels and host calls that are in no graph.
  const std::shared_ptr<FaultBox>& own() const { return own_; }
  /// An exec is about to be launched here. `launches`: its kernels may launch device graphs.
  void watch(const std::shared_ptr<FaultBox>& box, bool launches);
  /// Takes the failures since the last call, and stops watching. REQUIRES: the stream's work has
  /// ended.
  void collect();
  /// Whether there are failures to throw, as far as the device has reported them. Goes through the
  /// records of all kernels that may report.
  bool any();
  /// Throws the first failure collected, if any.
  void rethrow();

 private:
  friend class FaultLedger;
  friend class FaultBox;
  // REQUIRE: the ledger's mutex.
  void add(const Fault& fault);
  void gather(FaultLedger::Boxes& device_graphs);

  FaultLedger& ledger_;
  std::shared_ptr<FaultBox> own_;
  std::vector<std::shared_ptr<FaultBox>> watched_;  // written by our own thread, under the mutex
  bool has_launched_launchers_ = false;
  std::vector<Fault> faults_;  // one for each node
};

/// A host call in the driver's form: a function and its data. The driver's thread runs it and does
/// not destroy it: destructors of captured objects may call CUDA, which would hang there.
class HostCall {
 public:
  HostCall(std::string name, std::string graph, std::function<void()> call,
           std::shared_ptr<FaultBox> faults)
      : name_(std::move(name)),
        graph_(std::move(graph)),
        call_(std::move(call)),
        faults_(std::move(faults)) {}

  static void run(void* self);
  /// Whether it ran, for one that runs once.
  bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }

 private:
  std::string name_;
  std::string graph_;  // empty: on a stream
  std::function<void()> call_;
  std::shared_ptr<FaultBox> faults_;
  std::atomic<bool> has_ended_{false};
};

}  // namespace attacca::cuda
