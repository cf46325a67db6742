// gpu_slices.hpp: what a GPU ran, as slices: CUPTI's records under the names of our nodes, or
// launches of graphs between two events. Both are thread-safe.
#pragma once

#include <attacca/trace.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/executor.hpp"
#include "graph/marks.hpp"
#include "instruments/cupti.hpp"

namespace attacca::trace {

/// The nodes of instantiated graphs, by the numbers that CUPTI's records have.
class GpuNodes {
 public:
  /// A number of 0 is not kept.
  void add(std::uint64_t number, const graph::Execution& node);
  /// A track for each stream. A record of no known node has its function's name. Marks are left
  /// out, and so are nodes that write records themselves: CUPTI knows their first pass only.
  void append(const std::vector<instruments::GpuSpan>& spans,
              std::span<const graph::MarkSite> sites, const std::string& process, Trace& to) const;

 private:
  struct Known {
    std::string node;
    std::string graph;
    Cost cost;
    bool is_mark;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Known> nodes_;
};

/// Launches with an event before and one behind them.
class TimedLaunches {
 public:
  /// Waits until the device has reached an event, to know when that was.
  explicit TimedLaunches(const Device& device);

  struct Launch {
    std::string graph;
    const void* stream;  // tells streams apart
    std::shared_ptr<graph::EventImpl> start;
    std::shared_ptr<graph::EventImpl> end;
  };
  void add(Launch launch);
  /// A track for each stream, with the launches that have ended.
  void append(const std::string& process, Trace& to);
  std::size_t dropped() const;

 private:
  struct Ended {
    std::string graph;
    const void* stream;
    std::int64_t begin_ns;
    std::int64_t end_ns;
  };
  /// Takes the times of launches that have ended and gives their events back. REQUIRES: the lock.
  void settle();
  std::int64_t moment_of(graph::EventImpl& event) const;

  Device device_;
  std::shared_ptr<graph::EventImpl> origin_;
  std::int64_t origin_ns_ = 0;
  mutable std::mutex mutex_;
  std::deque<Launch> pending_;
  std::vector<Ended> ended_;
  std::size_t dropped_ = 0;
};

}  // namespace attacca::trace
