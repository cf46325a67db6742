// library_capture.cpp: opens a capture into a graph, lets library calls enqueue into it, ends it.
#include "backend/cuda/library_capture.hpp"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "backend/cuda/capture_mode.hpp"
#include "backend/cuda/check.hpp"
#include "graph/executor.hpp"

namespace attacca::cuda {

LibraryCapture::LibraryCapture(BuiltGraph& built, const std::string& graph_name, cudaGraph_t into,
                               std::shared_ptr<CudaStream> stream)
    : built_(built), stream_(std::move(stream)), capture_{built.calls, built.faults, graph_name} {
  check(cudaStreamBeginCaptureToGraph(stream_->get(), into, nullptr, nullptr, 0,
                                      cudaStreamCaptureModeThreadLocal),
        [&] { return fmt::format("capturing library calls of graph '{}'", graph_name); });
  stream_->capture = &capture_;
}

LibraryCapture::~LibraryCapture() {
  if (!is_open_) return;
  cudaGraph_t ignored = nullptr;
  (void)cudaStreamEndCapture(stream_->get(), &ignored);
  (void)cudaGetLastError();
  stream_->capture = nullptr;
}

Producers LibraryCapture::add(const graph::NodeData& node, const Producers& producers) {
  const auto doing = [&] { return fmt::format("capturing library call '{}'", node.name); };
  const cudaStream_t stream = stream_->get();
  std::vector<cudaGraphNode_t> nodes = producers.nodes;
  check(cudaStreamUpdateCaptureDependencies(stream, nodes.data(), producers.edge_data(),
                                            nodes.size(), cudaStreamSetCaptureDependencies),
        doing);
  {
    // The function gets a stream that only we use, so that nothing it does outlives the capture.
    graph::StreamState state(graph::Access::device(built_.device.shared_from_this()), stream_);
    const CaptureMode strict(cudaStreamCaptureModeThreadLocal);
    std::get<graph::LibraryPart>(node.part).enqueue(graph::Access::stream(state));
  }
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* last = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, &edges, &count), doing);
  if (status != cudaStreamCaptureStatusActive) check(cudaErrorStreamCaptureInvalidated, doing);
  Producers ends;
  for (std::size_t at = 0; at < count; ++at) {
    ends.add(last[at], edges ? edges[at] : cudaGraphEdgeData{});
    ends_.insert(last[at]);
  }
  return ends;
}

void LibraryCapture::end() {
  // Streams that took part have to lead back to ours, whichever call brought them in.
  std::vector<cudaGraphNode_t> ends(ends_.begin(), ends_.end());
  const cudaError_t joined = cudaStreamUpdateCaptureDependencies(
      stream_->get(), ends.data(), nullptr, ends.size(), cudaStreamSetCaptureDependencies);
  cudaGraph_t ignored = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_->get(), &ignored);
  stream_->capture = nullptr;
  is_open_ = false;
  const auto doing = [&] {
    return fmt::format("capturing library calls of graph '{}'", capture_.graph);
  };
  check(joined, doing);
  check(ended, doing);
  built_.is_watched = built_.is_watched || capture_.is_watched;
}

}  // namespace attacca::cuda
