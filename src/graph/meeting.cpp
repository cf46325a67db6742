// meeting.cpp: finds the meetings of a graph.
#include "graph/meeting.hpp"

namespace attacca::graph {

Meeting* meeting_of(const NodeData& node) {
  const auto* library = std::get_if<LibraryPart>(&node.part);
  const auto* call = library ? library->enqueue.target<MeetingCall>() : nullptr;
  return call ? call->meeting.get() : nullptr;
}

std::unique_ptr<Instance> make_instance(const GraphData& data, Target target) {
  for (const NodeData& node : data.nodes)
    if (Meeting* meeting = meeting_of(node)) return meeting->instantiate(data, target);
  return impl_of(data.device).instantiate(data, target);
}

}  // namespace attacca::graph
