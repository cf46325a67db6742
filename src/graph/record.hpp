// record.hpp: turns stream code into a graph. While a stream has a Recorder, each call on it
// appends a node behind the stream's last nodes (its frontier).
#pragma once

#include <memory>
#include <vector>

#include "graph/executor.hpp"

namespace attacca::graph {

class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  explicit Recorder(Graph& graph) : graph_(graph) {}
  ~Recorder();

  Recorder(const Recorder&) = delete;
  /// For a stream that ends. The work it leaves must still be followed.
  void forget(StreamState& stream);
  void join(StreamState& stream, const std::vector<NodeId>& frontier);
  /// Appends the node that `add` makes and moves the stream's frontier to it.
  template <class F>
  void append(StreamState& stream, F add) {
    const Node node = add(graph_, edges(stream));
    stream.frontier = {node.id()};
  }
  Graph& graph() { return graph_; }
  /// Throws BadArgument if a stream that joined has work the first one does not follow, or if the
  /// first one has ended.
  void check_joined(const StreamState& origin) const;

 private:
  std::vector<Node> edges(const StreamState& stream);

  Graph& graph_;
  std::vector<StreamState*> streams_;
  std::vector<NodeId> left_;  // frontiers of streams that have ended
};

}  // namespace attacca::graph
