// faults.hpp: how failures that happen on the device or in host calls reach `synchronize`. A
// failure lands in the FaultBox of the exec or stream it happened in; a stream looks into its own
// box and into those of the execs it launched.
#pragma once

#include <atomic>
#include <attacca/kernel.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace attacca::cuda {

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

/// The first failure of an exec or a stream, until someone takes it.
class FaultBox {
 public:
  explicit FaultBox(FaultMemory& memory) : memory_(memory) {}
  ~FaultBox();
  FaultBox(const FaultBox&) = delete;
  FaultBox& operator=(const FaultBox&) = delete;

  /// For a kernel's second parameter: where it reports. The same for the same node's name.
  attacca::detail::LaunchPort port(const KernelInfo& kernel, const std::string& node,
                                   const std::string& graph);

  /// A host call's failure. While it is there, later host calls of the same owner do not run.
  void put(std::exception_ptr error);
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }

  /// Null where nothing failed. REQUIRES: what may have failed was synchronized with.
  std::exception_ptr take(std::size_t spawn_limit);

 private:
  struct Reporter {
    std::string node;
    std::string graph;
    std::span<const char* const> waits_for;
    attacca::detail::FaultRecord* record;
  };
  FaultMemory& memory_;
  std::atomic<bool> is_set_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::vector<Reporter> reporters_;
};

/// A host call as the driver sees it: a function and its data.
struct HostCall {
  std::string name;
  std::string graph;
  std::function<void()> call;
  std::shared_ptr<FaultBox> faults;
  bool is_owned_by_driver = false;  // enqueued on a stream: runs once and then goes

  static void run(void* self);
};

}  // namespace attacca::cuda
