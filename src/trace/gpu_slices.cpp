// gpu_slices.cpp: names CUPTI's records, and turns pairs of events into times.
#include "trace/gpu_slices.hpp"

#include <attacca/mark.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/clock.hpp"
#include "trace/slices.hpp"

namespace attacca::trace {

namespace {

constexpr int kOriginAttempts = 8;

/// The place of a track of a key, which is made if it is not there.
template <class Key, class Name>
std::size_t track_of(const Key& key, std::map<Key, std::size_t>& tracks, Trace& trace,
                     const std::string& process, const Name& name) {
  const auto [found, is_new] = tracks.try_emplace(key, trace.tracks.size());
  if (is_new) trace.tracks.push_back({process, name(tracks.size())});
  return found->second;
}

}  // namespace

void GpuNodes::add(std::uint64_t number, const graph::Execution& node) {
  if (number == 0) return;
  const std::lock_guard lock(mutex_);
  nodes_[number] = {std::string(node.node), std::string(node.graph),
                    node.kernel ? node.kernel->cost(node.args) : Cost{},
                    node.kernel == &mark().info()};
}

void GpuNodes::append(const std::vector<instruments::GpuSpan>& spans,
                      std::span<const graph::MarkSite> sites, const std::string& process,
                      Trace& to) const {
  const std::lock_guard lock(mutex_);
  std::set<std::pair<std::string_view, std::string_view>> recorded;
  for (const graph::MarkSite& site : sites)
    for (const std::string& node : site.nodes) recorded.emplace(site.graph, node);
  std::map<unsigned, std::size_t> tracks;
  for (const instruments::GpuSpan& span : spans) {
    const auto found = nodes_.find(span.node);
    const Known* known = found != nodes_.end() ? &found->second : nullptr;
    if (known && (known->is_mark || recorded.contains({known->graph, known->node}))) continue;
    const std::size_t track = track_of(span.stream, tracks, to, process, [&](std::size_t) {
      return "stream " + std::to_string(span.stream);
    });
    TraceSlice slice{
        .track = track, .name = span.name, .begin_ns = span.start_ns, .end_ns = span.end_ns};
    if (known) {
      slice.name = known->node;
      slice.graph = known->graph;
      slice.cost = known->cost;
    }
    to.slices.push_back(std::move(slice));
  }
}

/// The host's clock is read behind an event. Whatever interrupts the two makes all times too late,
/// so the quickest of several attempts counts.
TimedLaunches::TimedLaunches(const Device& device) : device_(device) {
  const std::unique_ptr<graph::StreamImpl> stream = graph::impl_of(device).make_stream(0);
  std::int64_t quickest = std::numeric_limits<std::int64_t>::max();
  for (int attempt = 0; attempt < kOriginAttempts; ++attempt) {
    std::shared_ptr<graph::EventImpl> event = graph::impl_of(device).make_event(true);
    const std::int64_t before = now_ns();
    stream->record(*event);
    stream->synchronize();
    const std::int64_t after = now_ns();
    if (after - before >= quickest) continue;
    quickest = after - before;
    origin_ = std::move(event);
    origin_ns_ = after;
  }
}

void TimedLaunches::add(Launch launch) {
  const std::lock_guard lock(mutex_);
  settle();
  pending_.push_back(std::move(launch));
}

std::int64_t TimedLaunches::moment_of(graph::EventImpl& event) const {
  return origin_ns_ + static_cast<std::int64_t>(1e9 * event.since(*origin_).count());
}

void TimedLaunches::settle() {
  for (; !pending_.empty() && pending_.front().end->is_reached(); pending_.pop_front()) {
    Launch& launch = pending_.front();
    if (ended_.size() == kMostSlices)
      ++dropped_;
    else
      ended_.push_back({std::move(launch.graph), launch.stream, moment_of(*launch.start),
                        moment_of(*launch.end)});
  }
}

void TimedLaunches::append(const std::string& process, Trace& to) {
  const std::lock_guard lock(mutex_);
  settle();
  std::map<const void*, std::size_t> tracks;
  std::uint64_t number = 0;
  for (const Ended& launch : ended_) {
    const std::size_t track = track_of(launch.stream, tracks, to, process, [](std::size_t stream) {
      return "stream " + std::to_string(stream) + ", timed by events";
    });
    to.slices.push_back({.track = track,
                         .name = launch.graph,
                         .begin_ns = launch.begin_ns,
                         .end_ns = launch.end_ns,
                         .graph = launch.graph,
                         .launch = ++number});
  }
}

std::size_t TimedLaunches::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace attacca::trace
