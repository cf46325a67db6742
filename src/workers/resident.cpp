// resident.cpp: the checks of a resident scheduler, and the place of its node in a graph.
#include <attacca/error.hpp>
#include <attacca/resident.hpp>

#include <string>

#include "graph/argument_checks.hpp"
#include "graph/data.hpp"

namespace attacca::detail {

void refuse_started(const char* what) {
  throw BadArgument(std::string("ResidentScheduler: cannot ") + what +
                    " once it was started; do it before");
}

void check_work_count(std::size_t count) {
  if (count == 0)
    throw BadArgument("ResidentScheduler: no graph to run; add the graphs of its jobs first");
  if (count > kMostWorks)
    throw BadArgument("ResidentScheduler: " + std::to_string(count) +
                      " kinds of work; use at most " + std::to_string(kMostWorks));
}

void check_work_device(const Graph& work, const Device& device) {
  if (work.device() == device) return;
  throw GraphError(Rule::two_devices, work.name(),
                   "ResidentScheduler: graph '" + work.name() + "' is for " +
                       graph::name_beside(work.device(), device) + ", and the scheduler is on " +
                       device.name() + "; build it for the scheduler's device");
}

void check_job(std::uint32_t graph, std::size_t count) {
  if (graph < count) return;
  throw BadArgument("ResidentScheduler: a job for graph " + std::to_string(graph) + ", and " +
                    (count == 0 ? std::string("none was added")
                                : std::to_string(count) + " were added, from 0 on") +
                    "; use the number that `add` returned");
}

device::WorkQueueOptions named_scheduler(device::WorkQueueOptions options) {
  if (options.name == device::WorkQueueOptions{}.name) options.name = "resident scheduler";
  return options;
}

std::vector<Node> last_nodes(Graph& graph) { return graph::Access::last_nodes(graph); }

}  // namespace attacca::detail
