// summary.cpp: sweeps over slices in the order of their begins. Each moment of a track belongs to
// the innermost slice, and counts as busy once.
#include "trace/summary.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "core/without_numbers.hpp"
#include "trace/slices.hpp"

namespace attacca::trace {

namespace {

using Slices = std::vector<const TraceSlice*>;  // in order

/// Whether another thread's slice is the execution that this one belongs to.
bool is_part(const TraceSlice& slice) {
  return std::any_of(slice.arguments.begin(), slice.arguments.end(),
                     [](const auto& argument) { return argument.first == kPart; });
}

/// The tokens that a step of an engine sampled; 0: it is no step.
std::int64_t rows_of(const TraceSlice& slice) {
  for (const auto& [name, value] : slice.arguments)
    if (const auto* rows = std::get_if<std::int64_t>(&value); rows && name == "rows") return *rows;
  return 0;
}

class NameTimes {
 public:
  void add(const TraceSlice& slice) {
    NameTime& time = times_[slice.name];
    time.count += is_part(slice) ? 0 : 1;
    time.longest_ns = std::max(time.longest_ns, slice.end_ns - slice.begin_ns);
  }
  void add(const NameTime& other, const std::string& name) {
    NameTime& time = times_[name];
    time.count += other.count;
    time.self_ns += other.self_ns;
    time.longest_ns = std::max(time.longest_ns, other.longest_ns);
  }
  void add_self(const TraceSlice& slice, std::int64_t ns) { times_[slice.name].self_ns += ns; }

  std::vector<NameTime> sorted() const {
    std::vector<NameTime> all;
    for (const auto& [name, time] : times_) {
      all.push_back(time);
      all.back().name = name;
    }
    std::sort(all.begin(), all.end(), [](const NameTime& a, const NameTime& b) {
      return a.self_ns != b.self_ns ? a.self_ns > b.self_ns : a.name < b.name;
    });
    return all;
  }

 private:
  std::unordered_map<std::string, NameTime> times_;
};

/// Gives each moment of a track to the innermost slice. Returns the time of all together.
std::int64_t add_track(const Slices& slices, NameTimes& names) {
  Slices open;
  std::int64_t now = std::numeric_limits<std::int64_t>::min();
  std::int64_t busy = 0;
  const auto advance = [&](std::int64_t to) {
    for (; !open.empty() && now < to; open.pop_back()) {
      const std::int64_t until = std::min(open.back()->end_ns, to);
      if (until > now) {
        names.add_self(*open.back(), until - now);
        busy += until - now;
        now = until;
      }
      if (open.back()->end_ns > to) return;
    }
  };
  for (const TraceSlice* slice : slices) {
    advance(slice->begin_ns);
    now = std::max(now, slice->begin_ns);
    names.add(*slice);
    open.push_back(slice);
  }
  advance(std::numeric_limits<std::int64_t>::max());
  return busy;
}

/// The gaps of a process between `begin` and `end`. Their lengths add up to its idle time.
std::vector<Gap> gaps_of(const std::string& process, const Slices& slices, std::int64_t begin,
                         std::int64_t end) {
  std::vector<Gap> gaps;
  std::int64_t covered_to = begin;
  const TraceSlice* last = nullptr;
  const auto name_of = [](const TraceSlice* slice) {
    return slice ? std::optional(slice->name) : std::nullopt;
  };
  const auto add = [&](std::int64_t to, const TraceSlice* next) {
    if (to > covered_to)
      gaps.push_back({process, covered_to - begin, to - covered_to, name_of(last), name_of(next)});
  };
  for (const TraceSlice* slice : slices) {
    add(slice->begin_ns, slice);
    if (!last || slice->end_ns >= covered_to) last = slice;
    covered_to = std::max(covered_to, slice->end_ns);
  }
  add(end, nullptr);
  return gaps;
}

}  // namespace

std::int64_t Summary::total_ns() const {
  return std::accumulate(names.begin(), names.end(), std::int64_t{0},
                         [](std::int64_t sum, const NameTime& name) { return sum + name.self_ns; });
}

Summary summarize(const Trace& trace, std::size_t most_gaps) {
  Summary summary;
  summary.slices = trace.slices.size();
  Slices slices;
  for (const TraceSlice& slice : trace.slices) slices.push_back(&slice);
  std::stable_sort(slices.begin(), slices.end(),
                   [](auto* a, auto* b) { return is_earlier(*a, *b); });
  const std::int64_t begin = slices.empty() ? 0 : slices.front()->begin_ns;
  std::int64_t end = begin;
  std::vector<Slices> of_track(trace.tracks.size());
  for (const TraceSlice* slice : slices) {
    end = std::max(end, slice->end_ns);
    summary.iterations += slice->iteration != 0 ? 1 : 0;
    of_track.at(slice->track).push_back(slice);
  }
  summary.wall_ns = end - begin;

  NameTimes names, ranges, calls;
  for (std::size_t at = 0; at < trace.tracks.size(); ++at) {
    const TraceTrack& track = trace.tracks[at];
    NameTimes& times = !track.has_ranges ? names : track.process == kHostCalls ? calls : ranges;
    const std::int64_t busy = add_track(of_track[at], times);
    for (const TraceSlice* slice : of_track[at])
      if (track.has_ranges) summary.tokens += rows_of(*slice);
    if (track.has_ranges) continue;
    summary.tracks.push_back(
        {track.process + ": " + track.name, of_track[at].size(), busy, summary.wall_ns - busy});
    const bool is_new =
        std::none_of(summary.processes.begin(), summary.processes.end(),
                     [&](const Usage& other) { return other.name == track.process; });
    if (is_new) summary.processes.push_back({.name = track.process});
  }
  for (Usage& process : summary.processes) {
    Slices work;
    for (const TraceSlice* slice : slices) {
      const TraceTrack& track = trace.tracks[slice->track];
      if (!track.has_ranges && track.process == process.name) work.push_back(slice);
    }
    const std::vector<Gap> gaps = gaps_of(process.name, work, begin, end);
    for (const Gap& gap : gaps) process.idle_ns += gap.length_ns;
    process.slices = work.size();
    process.busy_ns = summary.wall_ns - process.idle_ns;
    summary.gaps.insert(summary.gaps.end(), gaps.begin(), gaps.end());
  }
  std::stable_sort(summary.gaps.begin(), summary.gaps.end(),
                   [](const Gap& a, const Gap& b) { return a.length_ns > b.length_ns; });
  if (summary.gaps.size() > most_gaps) summary.gaps.resize(most_gaps);
  summary.names = names.sorted();
  summary.ranges = ranges.sorted();
  summary.calls = calls.sorted();
  return summary;
}

std::vector<NameTime> merge_numbers(const std::vector<NameTime>& names) {
  NameTimes merged;
  for (const NameTime& name : names) merged.add(name, core::without_numbers(name.name));
  return merged.sorted();
}

std::vector<NameChange> compare_names(const Summary& before, const Summary& after) {
  std::vector<NameChange> changes;
  std::unordered_map<std::string, std::size_t> places;
  for (const NameTime& name : before.names) {
    places.emplace(name.name, changes.size());
    changes.push_back({name, {}});
  }
  for (const NameTime& name : after.names) {
    const auto [place, is_new] = places.try_emplace(name.name, changes.size());
    if (is_new) changes.emplace_back();
    changes[place->second].after = name;
  }
  std::stable_sort(changes.begin(), changes.end(), [](const NameChange& a, const NameChange& b) {
    return std::abs(a.total_ns()) > std::abs(b.total_ns());
  });
  return changes;
}

}  // namespace attacca::trace
