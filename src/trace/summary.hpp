// summary.hpp: what a trace says: how long each track and each device was busy and idle, the
// largest gaps, and which nodes took the time. It judges nothing.
#pragma once

#include <attacca/trace.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attacca::trace {

/// The time of a track, or of a process, which is busy while any of its tracks is. Busy and idle
/// add up to the wall time of the trace.
struct Usage {
  std::string name;
  std::size_t slices = 0;
  std::int64_t busy_ns = 0;
  std::int64_t idle_ns = 0;
};

/// A time in which no track of a process ran anything.
struct Gap {
  std::string process;
  std::int64_t begin_ns = 0;  // since the trace began
  std::int64_t length_ns = 0;
  std::optional<std::string> before;  // the slice that ended last; none: the trace begins
  std::optional<std::string> after;   // the slice that began next; none: the trace ends
};

/// All slices of one name.
struct NameTime {
  std::string name;
  std::size_t count = 0;     // a kernel that several threads computed counts once
  std::int64_t self_ns = 0;  // without the slices inside them
  std::int64_t longest_ns = 0;
  double floor_share = 0;  // of the time that the device's roofs allow; 0: unknown

  double mean_ns() const {
    return count == 0 ? 0 : static_cast<double>(self_ns) / static_cast<double>(count);
  }
};

struct Summary {
  std::int64_t wall_ns = 0;  // from the first begin to the last end, of all tracks
  std::size_t slices = 0;
  std::size_t iterations = 0;    // slices inside loops
  std::vector<Usage> tracks;     // those of work; "host: thread 1"
  std::vector<Usage> processes;  // with at least one such track
  std::vector<Gap> gaps;         // longest first
  std::vector<NameTime> names;   // most time first
  std::vector<NameTime> ranges;  // of the tracks of ranges, most time first
  std::vector<NameTime> calls;   // of the host, by kind, most time first
  std::int64_t tokens = 0;       // that the steps of an engine sampled

  std::int64_t total_ns() const;  // of all names
};

inline constexpr std::size_t kGaps = 10;
Summary summarize(const Trace& trace, std::size_t most_gaps = kGaps);

/// Takes names together that differ only in numbers that are words: "layer 3 norm" becomes "layer #
/// norm".
std::vector<NameTime> merge_numbers(const std::vector<NameTime>& names);

/// What changed between two runs of the same thing.
struct NameChange {
  NameTime before;
  NameTime after;

  const std::string& name() const { return before.count != 0 ? before.name : after.name; }
  std::int64_t total_ns() const { return after.self_ns - before.self_ns; }
};
/// The names of both, largest change of the total first.
std::vector<NameChange> compare_names(const Summary& before, const Summary& after);

}  // namespace attacca::trace
