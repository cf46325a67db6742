// refusal.cpp: the words for failures that kernels report: refused launches, overdue waits and
// broken sources of work.
#include <fmt/core.h>

#include "core/fault_sources.hpp"
#include "graph/failures.hpp"

namespace attacca::graph {

namespace {

std::string shape(const Dim3& extents) {
  return fmt::format("{}x{}x{}", extents.x, extents.y, extents.z);
}

std::string message_of(const KernelFault& fault) {
  const std::string who = fault.graph.empty()
                              ? fmt::format("kernel '{}' on a stream", fault.kernel)
                              : fmt::format("kernel '{}' of graph '{}'", fault.kernel, fault.graph);
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
    case LaunchStatus::invalid_grid:
      return fmt::format(
          "{} spawned {} blocks of {} threads with {} bytes of shared memory each, which cannot be "
          "launched; a block has 1 to {} threads, 64 in z at most, and no more than its registers "
          "allow, a grid 1 to 65535 blocks in y and z, and a spawned block at most {} bytes of "
          "shared memory",
          who, shape(fault.spawn.blocks), shape(fault.spawn.threads), fault.spawn.shared_bytes,
          attacca::detail::kMostBlockThreads, attacca::detail::kMostSpawnedSharedBytes);
    case LaunchStatus::driver_error:
      return fmt::format(
          "{} was refused a launch by the driver: {}", who,
          fault.driver_error.empty() ? fmt::format("error {}", fault.detail) : fault.driver_error);
    case LaunchStatus::not_a_device_graph:
      return fmt::format(
          "{} launches from outside a graph made for it, or launches nothing; use "
          "instantiate_for_device for a graph that relaunches itself, a graph rather than a "
          "stream, and the handle of a DeviceExec",
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
          "Do not use the kernel's results",
          who, wait.block, wait.thread, static_cast<double>(wait.nanoseconds) * 1e-9,
          wait.what < fault.waits_for.size() ? fault.waits_for[wait.what] : "something",
          wait.wanted, wait.seen);
    }
    case LaunchStatus::source_broken:
      return fmt::format("{}: {}", who, core::explain_fault_source(fault.detail));
    case LaunchStatus::launched:
    case LaunchStatus::not_elected:
      break;
  }
  return fmt::format("{} was refused a launch (status {})", who, static_cast<int>(fault.status));
}

}  // namespace

Failure failure_of(const KernelFault& fault) {
  FailureKind kind = FailureKind::refused_launch;
  if (fault.status == LaunchStatus::wait_overdue) kind = FailureKind::overdue_wait;
  if (fault.status == LaunchStatus::source_broken) kind = FailureKind::broken_source;
  return {kind, fault.kernel, fault.graph, message_of(fault)};
}

}  // namespace attacca::graph
