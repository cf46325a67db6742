// marks.hpp: makes graphs record their own passes. A profiler sees the first pass of a WHILE and
// nothing inside a graph that the device launches. So a graph that is instantiated while a Tracer
// lives gets marks: nodes that write records at the begin and end of each body and of each graph
// that device code launches, and kernels that launch graphs record that. Other graphs have none.
#pragma once

#include <attacca/device/records.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "graph/data.hpp"

namespace attacca::graph {

/// A place that writes records.
struct MarkSite {
  std::string name;
  std::string graph = {};
  bool is_range = false;       // around the work of other sites, rather than work
  bool is_persistent = false;  // many blocks are there at once, and stay
  /// Where this is not empty the site writes no begin: it is when the last of these was left, or
  /// entered if it is a range.
  std::vector<std::uint32_t> after = {};
  std::vector<std::string> nodes = {};  // of the graph, whose end it marks
  std::uint32_t inside = 0;  // the site of the graph that it is in, if device code launches that
  Cost cost = {};
  std::uint64_t handle = 0;  // of a graph that device code launches
  bool launches = false;     // such a graph has kernels that launch
};

/// The sites of graphs that were instantiated, and the ring that they write to. Those graphs share
/// it. Thread-safe.
class Marks {
 public:
  /// Bodies and graphs, or every node in them too.
  enum class Level : std::uint8_t { scopes, nodes };
  static constexpr std::size_t kRecords = 1u << 20;

  Marks(const Device& device, Level level, std::size_t records = kRecords)
      : device_(device), level_(level), capacity_(records) {}

  Level level() const { return level_; }
  const Device& device() const { return device_; }
  /// Makes a site. The ring is there from the first one on.
  device::SiteRef add(MarkSite site);
  /// See MarkSite::after.
  device::SiteRef set_after(std::uint32_t site, std::vector<std::uint32_t> after);
  /// The handle of the graph at a site; it is known after instantiation.
  void bind(std::uint32_t site, const void* handle);
  /// By number; the first one is empty.
  std::vector<MarkSite> sites() const;

  // REQUIRES, for both below: no kernel that writes to the ring runs.
  /// The newest records, oldest first.
  std::vector<device::Record> read() const;
  /// How many older ones were overwritten.
  std::uint64_t lost() const;

 private:
  Device device_;
  Level level_;
  std::size_t capacity_;
  mutable std::mutex mutex_;
  std::optional<device::Records> records_;
  std::vector<MarkSite> sites_{1};
};

/// A graph with marks, or nothing where it has no body and no part in launches by the device.
struct Marked {
  GraphData data;
  std::uint32_t site = 0;  // of the graph, if device code launches it
};
std::optional<Marked> with_marks(const GraphData& data, Target target,
                                 const std::shared_ptr<Marks>& marks);

/// The marks of a device that is being traced; null: none.
std::shared_ptr<Marks> marks_of(const Device& device);

}  // namespace attacca::graph
