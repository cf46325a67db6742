// faults.hpp: how failures that happen on the device or in host calls reach `synchronize`.
#pragma once

#include <atomic>
#include <attacca/thread.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace attacca::cuda {

/// The first failure of an exec's or stream's host calls, until someone takes it. While it is
/// there, later host calls of the same owner do not run.
class ErrorBox {
 public:
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  void put(std::exception_ptr error);
  std::exception_ptr take();

 private:
  std::atomic<bool> is_set_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// A host call as the driver sees it: a function and its data.
struct HostCall {
  std::string name;
  std::string graph;
  std::function<void()> call;
  std::shared_ptr<ErrorBox> errors;
  bool is_owned_by_driver = false;  // enqueued on a stream: runs once and then goes

  static void run(void* self);
};

/// Refused launches of one device: the log that kernels write, and names for its labels.
class Faults {
 public:
  Faults();
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  attacca::detail::LaunchPort port(const std::string& kernel, const std::string& graph);
  /// Throws LaunchRefused for the first refusal since the last call.
  void throw_if_any(std::size_t spawn_limit);

 private:
  struct Label {
    std::string kernel;
    std::string graph;
  };
  attacca::detail::FaultLog* log_ = nullptr;  // pinned
  std::mutex mutex_;
  std::vector<Label> labels_;
};

}  // namespace attacca::cuda
