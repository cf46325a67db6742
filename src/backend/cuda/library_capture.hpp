// library_capture.hpp: captures the library calls of a graph or body into it.
//
// One capture stays open from the first call to the last, and nodes are added between them. With a
// capture for each call, all of them have the same id. NCCL keeps a stream for each id, so that its
// second call would use a stream that left the capture with the first.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "backend/cuda/built_graph.hpp"
#include "backend/cuda/producers.hpp"
#include "backend/cuda/stream.hpp"
#include "graph/data.hpp"

namespace attacca::cuda {

/// REQUIRES: one thread, in relaxed mode towards captures. While it lives, nobody else uses
/// `stream`.
class LibraryCapture {
 public:
  LibraryCapture(BuiltGraph& built, const std::string& graph_name, cudaGraph_t into,
                 std::shared_ptr<CudaStream> stream);
  /// Leaves the capture. What was captured stays in the graph.
  ~LibraryCapture();
  LibraryCapture(const LibraryCapture&) = delete;

  /// Adds the nodes that the call enqueues, behind `producers`. Returns those that come last.
  Producers add(const graph::NodeData& node, const Producers& producers);
  /// Throws DeviceError if something captured does not lead back to the stream.
  void end();

 private:
  BuiltGraph& built_;
  std::shared_ptr<CudaStream> stream_;
  CudaStream::Capture capture_;
  std::set<cudaGraphNode_t> ends_;  // of all calls
  bool is_open_ = true;
};

}  // namespace attacca::cuda
