// failures.hpp: failures of running work on their way to `synchronize`. docs/failures.md has the
// rule: after a failure, host calls of that stream do not run until `synchronize` has thrown it.
// Work on the device goes on.
#pragma once

#include <atomic>
#include <attacca/thread.hpp>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace attacca::graph {

/// A failure that a kernel reported.
struct KernelFault {
  std::string kernel;
  std::string graph;  // empty: on a stream
  LaunchStatus status = LaunchStatus::launched;
  unsigned detail = 0;  // barrier_overdue: the block, plus one; source_broken: its number
  attacca::detail::WaitFacts wait{};         // wait_overdue
  attacca::detail::SpawnFacts spawn{};       // invalid_grid
  std::span<const char* const> waits_for{};  // of the kernel
  std::size_t spawn_limit = 0;
  std::string driver_error{};  // its name and words, for driver_error
};

/// The type that `synchronize` throws.
enum class FailureKind : std::uint8_t { node, refused_launch, overdue_wait, broken_source };

struct Failure {
  FailureKind kind = FailureKind::node;
  std::string node;
  std::string graph;  // empty: on a stream
  std::string message;
};

Failure failure_of(const KernelFault& fault);
/// The failure of `node` with the exception being handled, whatever its type.
Failure failure_of_current_exception(const std::string& node, const std::string& graph);

/// The failures of one stream since they were last thrown: one for each node. Thread-safe.
class Failures {
 public:
  void add(Failure failure);
  bool any() const { return has_any_.load(std::memory_order_acquire); }
  /// Throws the first and says how many other nodes failed. Then all are forgotten.
  void rethrow();

 private:
  std::atomic<bool> has_any_{false};
  std::mutex mutex_;
  std::vector<Failure> failures_;
};

}  // namespace attacca::graph
