// refusal.cpp: the words for launches that device code asked for and did not get.
#include <fmt/format.h>

#include "graph/executor.hpp"

namespace attacca::graph {

std::string refusal_message(const std::string& kernel, const std::string& graph,
                            LaunchStatus status, std::size_t spawn_limit, unsigned detail) {
  const std::string who = fmt::format("kernel '{}' of graph '{}'", kernel, graph);
  switch (status) {
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
          who, spawn_limit);
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
          who, detail == 0 ? "a block" : fmt::format("block {}", detail - 1));
    case LaunchStatus::launched:
    case LaunchStatus::not_elected:
      break;
  }
  return fmt::format("{} was refused a launch (status {})", who, static_cast<int>(status));
}

}  // namespace attacca::graph
