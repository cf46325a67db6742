// record.cpp: captures attacca's own streams: appends their work to a graph and joins them by
// events.
#include "graph/record.hpp"

#include <attacca/capture.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "graph/argument_checks.hpp"

namespace attacca {

namespace graph {

StreamState::~StreamState() {
  if (recorder) recorder->forget(*this);
}

Recorder::~Recorder() {
  for (StreamState* stream : streams_) {
    stream->recorder = nullptr;
    stream->frontier.clear();
  }
}

void Recorder::forget(StreamState& stream) {
  left_.insert(left_.end(), stream.frontier.begin(), stream.frontier.end());
  std::erase(streams_, &stream);
}

void Recorder::join(StreamState& stream, const std::vector<NodeId>& frontier) {
  if (stream.recorder && stream.recorder != this)
    throw BadArgument("a stream that is being captured waited for an event of another capture");
  if (!(stream.device == graph_.device()))
    throw GraphError(
        Rule::two_devices, graph_.name(),
        fmt::format("a stream of {} cannot join the capture of '{}' on {}: a graph has one device; "
                    "capture a graph for each, and order their launches with an event",
                    name_beside(stream.device, graph_.device()), graph_.name(),
                    graph_.device().name()));
  if (!stream.recorder) {
    stream.recorder = this;
    streams_.push_back(&stream);
  }
  for (const NodeId id : frontier)
    if (std::find(stream.frontier.begin(), stream.frontier.end(), id) == stream.frontier.end())
      stream.frontier.push_back(id);
}

std::vector<Node> Recorder::edges(const StreamState& stream) {
  std::vector<Node> nodes;
  for (const NodeId id : stream.frontier) nodes.emplace_back(data_of(graph_), id);
  return nodes;
}

void Recorder::check_joined(const StreamState& origin) const {
  if (std::find(streams_.begin(), streams_.end(), &origin) == streams_.end())
    throw BadArgument(
        fmt::format("the stream that was captured as '{}' ended before its capture; keep it until "
                    "`capture` has returned",
                    graph_.name()));
  std::unordered_set<NodeId> followed;
  std::vector<NodeId> open = origin.frontier;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!followed.insert(id).second) continue;
    for (const Edge& edge : data_of(graph_).nodes[id].deps) open.push_back(edge.from);
  }
  const auto check = [&](const std::vector<NodeId>& frontier) {
    for (const NodeId id : frontier)
      if (!followed.contains(id))
        throw BadArgument(
            fmt::format("capture of '{}' ended while '{}', enqueued on a stream that joined, is "
                        "not followed by "
                        "the captured stream; record an event there and wait for it",
                        graph_.name(), data_of(graph_).nodes[id].name));
  };
  for (const StreamState* stream : streams_) check(stream->frontier);
  check(left_);
}

}  // namespace graph

Graph capture(StreamRef stream, const std::function<void(StreamRef)>& code, std::string name) {
  if (!code) throw BadArgument(fmt::format("capture of '{}' has no function", name));
  graph::StreamState& state = graph::state_of(stream);
  if (state.recorder)
    throw BadArgument(
        fmt::format("capture of '{}' on a stream that is already being captured; end "
                    "the first capture, or use another stream",
                    name));
  Graph result(state.device, std::move(name));
  const auto recorder = std::make_shared<graph::Recorder>(result);
  recorder->join(state, {});
  code(stream);
  recorder->check_joined(state);
  return result;
}

Graph capture_cuda(const Device& device, std::function<void(void*)> code, std::string name) {
  if (!device.is_cuda())
    throw BadArgument(fmt::format("capture_cuda of '{}' on {}: raw CUDA code needs a CUDA device",
                                  name, device.name()));
  if (!code) throw BadArgument(fmt::format("capture_cuda of '{}' has no function", name));
  Graph result(device, name);
  result.library(std::move(name),
                 [code = std::move(code)](StreamRef stream) { code(stream.native()); });
  return result;
}

}  // namespace attacca
