// failures.cpp: collects failures and throws them as exceptions of their type. The words for a
// kernel's report are in refusal.cpp.
#include "graph/failures.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <utility>

#include "core/counted.hpp"
#include "core/device_events.hpp"

namespace attacca::graph {

Failure failure_of_current_exception(const std::string& node, const std::string& graph) {
  std::string what = "something that is no exception";
  try {
    throw;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  return {FailureKind::node, node, graph,
          graph.empty() ? fmt::format("'{}' on a stream failed: {}", node, what)
                        : fmt::format("'{}' of graph '{}' failed: {}", node, graph, what)};
}

void Failures::add(Failure failure) {
  const std::lock_guard lock(mutex_);
  const bool is_known = std::any_of(failures_.begin(), failures_.end(), [&](const Failure& other) {
    return other.node == failure.node && other.graph == failure.graph;
  });
  if (!is_known) failures_.push_back(std::move(failure));
  has_any_.store(true, std::memory_order_release);
}

void Failures::rethrow() {
  core::Listener<core::WorkPasses>::tell({});
  if (!any()) return;
  std::vector<Failure> failures;
  {
    const std::lock_guard lock(mutex_);
    failures.swap(failures_);
    has_any_.store(false, std::memory_order_release);
  }
  if (failures.empty()) return;  // another thread took them
  const Failure& first = failures.front();
  const std::size_t others = failures.size() - 1;
  const std::string message =
      others == 0 ? first.message
                  : fmt::format("{} ({} failed too)", first.message, counted(others, "other node"));
  switch (first.kind) {
    case FailureKind::refused_launch:
      throw LaunchRefused(first.node, message);
    case FailureKind::overdue_wait:
      core::Listener<core::DeviceFailed>::tell({message, false});
      throw WaitOverdue(first.node, message);
    case FailureKind::broken_source:
      throw SourceBroken(first.node, message);
    case FailureKind::node:
      break;
  }
  throw NodeFailed(first.node, message);
}

}  // namespace attacca::graph
