// trace.hpp: where the time went: what ran when on which thread, as data that opens in Perfetto and
// chrome://tracing, and in `attacca trace`. docs/trace.md shows it.
//
//   attacca::Tracer tracer(device);
//   exec.launch(stream);
//   stream.synchronize();
//   write_trace(tracer.trace(), "run.json");
#pragma once

#include <attacca/device.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace attacca {

/// A row of the picture: a thread, a stream of a GPU, or what a device recorded of itself.
struct TraceTrack {
  std::string process;  // tracks with the same one stand together: a device, or "engine"
  std::string name;
  /// Its slices are ranges of time around the work of other tracks, not work: they count neither as
  /// busy nor as neighbours of a gap.
  bool has_ranges = false;

  friend bool operator==(const TraceTrack&, const TraceTrack&) = default;
};

/// Something that ran. Slices of one track lie inside each other or apart.
struct TraceSlice {
  using Value = std::variant<std::int64_t, std::string>;

  std::size_t track = 0;  // its place in Trace::tracks
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::string graph = {};       // empty: none
  std::uint64_t launch = 0;     // of the device, counted from 1; 0: unknown
  std::uint64_t iteration = 0;  // of the innermost WHILE around it, counted from 1; 0: none
  std::vector<std::pair<std::string, Value>> arguments = {};
  Cost cost = {};  // that the kernel declares; 0: it is no kernel, or a part of one

  friend bool operator==(const TraceSlice&, const TraceSlice&) = default;
};

struct Trace {
  std::vector<TraceTrack> tracks;
  std::vector<TraceSlice> slices;  // in any order

  friend bool operator==(const Trace&, const Trace&) = default;
};

// All of them throw BadArgument for a slice whose track is not there, or whose times are more than
// 4e18 ns from zero.

/// In Chrome's JSON format, with the times since the first slice began. A byte that is not UTF-8
/// becomes U+FFFD.
std::string to_chrome_json(const Trace& trace);
/// Perfetto's own format, a TracePacket for each begin and end. Smaller than JSON, and read faster.
std::string to_perfetto(const Trace& trace);
/// A page that shows the trace by itself: zoom, search, gaps.
std::string to_trace_page(const Trace& trace, const std::string& title);

/// Writes the format that the name's ending asks for: .pftrace and .perfetto-trace for Perfetto,
/// .html for the page, Chrome's JSON otherwise. Throws Error if the file cannot be written.
void write_trace(const Trace& trace, const std::string& path);

/// What a Tracer records: each launch of a graph as one slice, or each node. Nodes cost more to
/// record; docs/trace.md has the figures.
enum class TraceLevel : std::uint8_t { graph, node };

/// Records what graphs and streams run on a device while it lives. On the host each thread has a
/// track, and a kernel that several threads compute has a slice on each of them. On a GPU each
/// stream has one. Nodes of a GPU come from CUPTI and have names if their graph was instantiated
/// while this lives; where CUPTI does not work, and at the level of graphs, launches are timed by
/// events. Passes of loops, arms, graphs that device code launches, and the claims of persistent
/// workers are recorded by themselves, if they were instantiated or started while this lives; the
/// newest million of such records is kept. At the level of nodes the calls that the program makes
/// to the device (launches, copies, waits) are ranges of a process "host calls". A thread keeps
/// four million slices, and so does `add`; others are counted as dropped. No Timeline of that
/// device may live beside it. Thread-safe. REQUIRES: workers that were started on a stream while it
/// lived have ended before it ends.
class Tracer {
 public:
  /// Throws BadArgument if another one records that device.
  explicit Tracer(const Device& device, TraceLevel level = TraceLevel::node);
  ~Tracer();
  Tracer(const Tracer&) = delete;

  /// Why nodes are not recorded although they were asked for; empty if they are.
  std::string why_not() const;

  /// The clock of all slices.
  static std::int64_t now_ns();
  /// Adds a slice of the caller's own, for example a phase of the program. The track is made if it
  /// is not there; `slice.track` is not read.
  void add(const TraceTrack& track, TraceSlice slice);

  /// The slices so far, by time, with outer ones before those inside them. Synchronize the streams
  /// first.
  Trace trace() const;
  /// Slices that had no room.
  std::size_t dropped() const;

  struct Source;

 private:
  Device device_;
  std::shared_ptr<Source> source_;
};

}  // namespace attacca
