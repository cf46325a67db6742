// refusal.cpp: the words for what a kernel reports: launches it asked for and did not get, waits
// that ended unanswered, sources of work that broke.
#include <fmt/format.h>

#include "core/fault_sources.hpp"
#include "graph/executor.hpp"

namespace attacca::graph {

namespace {

std::string message_of(const KernelFault& fault) {
  const std::string who = fmt::format("kernel '{}' of graph '{}'", fault.kernel, fault.graph);
  switch (fault.status) {
    case LaunchStatus::fire_and_forget_budget:
      return fmt::format(
          "{} asked for launch number {} as fire-and-forget or sibling; one execution "
          "of a graph makes at most {}: launch the rest from a tail",
          who, kMaxFireAndForget + 1, kMaxFireAndForget);
    case LaunchStatus::tail_budget:
      return fmt::format(
          "{} asked for tail launch number {}; at most {} may be pending: relaunch the "
          "graph and launch the rest from there",
          who, kMaxTails + 1, kMaxTails);
    case LaunchStatus::relaunch_budget:
      return fmt::format(
          "{} asked to relaunch its graph twice in one execution; at most {} may be "
          "pending: call relaunch_self once",
          who, kMaxRelaunches);
    case LaunchStatus::busy:
      return fmt::format(
          "{} launched a graph that is running or already pending; wait for it by "
          "launching from a tail, or instantiate it twice",
          who);
    case LaunchStatus::spawn_budget:
      return fmt::format(
          "{} spawned more than {} kernels that are still pending; raise the limit "
          "with nested::set_limits before the first launch, or spawn fewer",
          who, fault.spawn_limit);
    case LaunchStatus::not_a_device_graph:
      return fmt::format(
          "{} launches from outside a graph made for it; use instantiate_for_device "
          "for a graph that relaunches itself, and a graph rather than a stream",
          who);
    case LaunchStatus::spawn_overdue:
      return fmt::format(
          "kernels spawned by {} did not end within a minute; the graph went on without them: look "
          "for a kernel that waits for another",
          who);
    case LaunchStatus::barrier_overdue:
      return fmt::format(
          "{} was ended: {} did not come to the grid barrier, and the patience of the others ran "
          "out; look for a block that waits for another, or raise PersistentProgram::patience",
          who, fault.detail == 0 ? "a block" : fmt::format("block {}", fault.detail - 1));
    case LaunchStatus::wait_overdue: {
      const detail::WaitFacts& wait = fault.wait;
      return fmt::format(
          "{}: block {}, thread {} waited {:.3g} s for {} and gave up; it wanted {} and saw {}. "
          "What "
          "the kernel computed is not to be used",
          who, wait.block, wait.thread, static_cast<double>(wait.nanoseconds) * 1e-9,
          wait.what < fault.waits_for.size() ? fault.waits_for[wait.what] : "something",
          wait.wanted, wait.seen);
    }
    case LaunchStatus::source_broken:
      return fmt::format("{} ended early: {}", who, core::explain_fault_source(fault.detail));
    case LaunchStatus::launched:
    case LaunchStatus::not_elected:
      break;
  }
  return fmt::format("{} was refused a launch (status {})", who, static_cast<int>(fault.status));
}

}  // namespace

std::exception_ptr exception_of(const KernelFault& fault) {
  const std::string message = message_of(fault);
  if (fault.status == LaunchStatus::wait_overdue)
    return std::make_exception_ptr(WaitOverdue(fault.kernel, message));
  if (fault.status == LaunchStatus::source_broken)
    return std::make_exception_ptr(SourceBroken(fault.kernel, message));
  return std::make_exception_ptr(LaunchRefused(fault.kernel, message));
}

}  // namespace attacca::graph
