// meeting.hpp: library calls that graphs of several threads make together, such as exchanges of
// ranks that share a device. Execs of such graphs launch one graph, in which they are all joined.
#pragma once

#include <memory>

#include "graph/data.hpp"
#include "graph/executor.hpp"

namespace attacca::graph {

/// One call, as one of the threads sees it.
class Meeting {
 public:
  virtual ~Meeting() = default;
  /// Outside graphs.
  virtual void enqueue(StreamRef stream) = 0;
  /// An instance of this thread's graph, joined with those of the others. Waits for them.
  virtual std::unique_ptr<Instance> instantiate(const GraphData& data, Target target) = 0;
};

/// The function of a library node that is a meeting.
struct MeetingCall {
  std::shared_ptr<Meeting> meeting;
  void operator()(StreamRef stream) const { meeting->enqueue(stream); }
};

/// Null unless the node is a meeting.
Meeting* meeting_of(const NodeData& node);

/// The device's instance of a graph; joined with others if it has meetings.
std::unique_ptr<Instance> make_instance(const GraphData& data, Target target);

}  // namespace attacca::graph
