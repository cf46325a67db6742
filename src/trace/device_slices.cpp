// device_slices.cpp: pairs begins and ends, finds who launched a graph, and puts slices on tracks.
#include "trace/device_slices.hpp"

#include <attacca/device/records.hpp>
#include <attacca/mark.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "trace/slices.hpp"

namespace attacca::trace {

using device::Record;
using device::SiteEvent;
using graph::MarkSite;

std::int64_t ClockMap::ours(std::uint64_t theirs) const {
  const auto since = static_cast<double>(static_cast<std::int64_t>(theirs - first.theirs));
  const auto span = static_cast<double>(static_cast<std::int64_t>(last.theirs - first.theirs));
  const double rate = span > 0 ? static_cast<double>(last.ours - first.ours) / span : 1;
  return first.ours + static_cast<std::int64_t>(since * rate);
}

ClockMap::Moment moment_of(const Device& device) {
  constexpr int kTries = 8;
  const Stream stream(device);
  const device::Records records(device, kTries);
  ClockMap::Moment best;
  std::int64_t shortest = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> tries;
  for (int at = 0; at < kTries; ++at) {
    const std::int64_t before = now_ns();
    stream.kernel(mark(), Grid{}, {records.ref(), 0, 0});
    stream.synchronize();
    tries.emplace_back(before, now_ns());
  }
  const std::vector<Record> read = records.read();
  for (std::size_t at = 0; at < read.size(); ++at) {
    const auto [before, after] = tries[at];
    if (at > 0 && after - before >= shortest) continue;
    shortest = after - before;
    best = {read[at].at, before + (after - before) / 2};
  }
  return best;
}

namespace {

const char* mode_name(SiteEvent event) {
  switch (event) {
    case SiteEvent::tail:
      return "tail";
    case SiteEvent::fire_and_forget:
      return "fire and forget";
    default:
      return "sibling";
  }
}

/// A launch by a kernel that has not been matched with a graph's begin.
struct DeviceLaunch {
  std::uint32_t site;
  SiteEvent how;
};

/// A slice and the track that it wants.
struct Placed {
  TraceSlice slice;
  std::string track;
  bool is_range;
};

class RecordReader {
 public:
  RecordReader(std::span<const MarkSite> sites, const ClockMap& clock, const std::string& processor)
      : sites_(sites), clock_(clock), processor_(processor), state_(sites.size()) {}

  std::vector<Placed> read(std::span<const Record> records) {
    // Threads take a place in the ring and then the time, or the other way round.
    std::vector<Record> sorted(records.begin(), records.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Record& a, const Record& b) { return a.at < b.at; });
    for (const Record& record : sorted) take(record);
    return std::move(placed_);
  }

 private:
  struct Begun {
    Record record;
    std::string launched_by = {};
    std::uint64_t iteration = 0;
  };
  struct State {
    std::map<std::uint32_t, Begun> open;  // by the record's value
    std::optional<std::uint64_t> left;    // when it last ended
    std::optional<std::uint64_t> entered;
    std::uint64_t iteration = 0;  // of a graph in a chain of tail launches
  };

  void take(const Record& record) {
    const std::uint32_t number = record.what / device::SiteRef::kEvents;
    const auto event = static_cast<SiteEvent>(record.what % device::SiteRef::kEvents);
    if (number == 0 || number >= sites_.size()) return;
    if (event == SiteEvent::begins)
      begin(number, record);
    else if (event == SiteEvent::ends)
      end(number, record);
    else
      launches_[std::uint64_t{record.pass} << 32 | record.value] = {number, event};
  }

  void begin(std::uint32_t number, const Record& record) {
    const MarkSite& site = sites_[number];
    Begun begun{record};
    begun.iteration = record.pass;
    if (site.handle != 0) {
      const auto launch = launches_.find(site.handle);
      if (launch != launches_.end()) {
        const auto [by, how] = launch->second;
        begun.launched_by =
            fmt::format("'{}' of '{}', {}", sites_[by].name, sites_[by].graph, mode_name(how));
        if (how == SiteEvent::tail) begun.iteration = state_[sites_[by].inside].iteration + 1;
        launches_.erase(launch);
      } else if (site.launches) {
        begun.iteration = 1;  // the host started it
      }
      state_[number].iteration = begun.iteration;
    }
    state_[number].entered = record.at;
    state_[number].open.insert_or_assign(record.value, std::move(begun));
  }

  void end(std::uint32_t number, const Record& record) {
    const MarkSite& site = sites_[number];
    State& state = state_[number];
    if (!site.after.empty()) {
      if (const std::optional<std::uint64_t> from = begin_of(site)) {
        const std::uint64_t iteration =
            record.pass != 0 ? record.pass : state_[site.inside].iteration;
        add(site, *from, record, iteration, {});
      }
    } else if (const auto open = state.open.find(record.value); open != state.open.end()) {
      add(site, open->second.record.at, record, open->second.iteration, open->second.launched_by);
      state.open.erase(open);
    }
    state.left = record.at;
  }

  /// When a site without a begin of its own began.
  std::optional<std::uint64_t> begin_of(const MarkSite& site) const {
    std::optional<std::uint64_t> last;
    for (const std::uint32_t before : site.after) {
      const State& state = state_[before];
      const auto& at = sites_[before].is_range ? state.entered : state.left;
      if (at && (!last || *at > *last)) last = at;
    }
    return last;
  }

  void add(const MarkSite& site, std::uint64_t from, const Record& end, std::uint64_t iteration,
           const std::string& launched_by) {
    Placed placed{.slice = {.name = site.name,
                            .begin_ns = clock_.ours(from),
                            .end_ns = clock_.ours(end.at),
                            .graph = site.graph,
                            .iteration = iteration,
                            .cost = site.cost},
                  .track = "",
                  .is_range = site.is_range};
    placed.slice.arguments.emplace_back(processor_, std::int64_t{end.processor});
    if (!launched_by.empty()) placed.slice.arguments.emplace_back("launched by", launched_by);
    if (site.is_persistent)
      placed.track = fmt::format("workers on {} {}", processor_, end.processor);
    else
      placed.track = site.is_range ? "passes and device graphs" : "nodes in loops";
    placed_.push_back(std::move(placed));
  }

  std::span<const MarkSite> sites_;
  const ClockMap& clock_;
  std::string processor_;
  std::vector<State> state_;  // by site
  std::map<std::uint64_t, DeviceLaunch>
      launches_;  // by the handle; a graph is launched once a time
  std::vector<Placed> placed_;
};

/// Kernels that record themselves do not know the pass that they are in: it is the innermost one
/// around them. REQUIRES: in the order of `is_earlier`.
void number_by_passes(std::vector<Placed>& placed) {
  std::vector<const TraceSlice*> open;  // outermost first
  for (Placed& each : placed) {
    if (!each.is_range) continue;
    std::erase_if(open, [&](const TraceSlice* pass) { return pass->end_ns < each.slice.begin_ns; });
    if (each.slice.iteration != 0)
      open.push_back(&each.slice);
    else if (!open.empty())
      each.slice.iteration = open.back()->iteration;
  }
}

/// Tracks on which slices lie inside each other or apart.
class Lanes {
 public:
  explicit Lanes(std::string process, Trace& to) : process_(std::move(process)), to_(to) {}

  /// REQUIRES: in the order of `is_earlier`.
  void add(Placed placed) {
    std::vector<Lane>& lanes = lanes_[placed.track];
    const auto fits = [&](Lane& lane) {
      while (!lane.ends.empty() && lane.ends.back() <= placed.slice.begin_ns) lane.ends.pop_back();
      // Work on one track never lies inside other work.
      return lane.ends.empty() || (placed.is_range && lane.ends.back() >= placed.slice.end_ns);
    };
    auto lane = std::find_if(lanes.begin(), lanes.end(), fits);
    if (lane == lanes.end()) {
      const std::string name =
          lanes.empty() ? placed.track : fmt::format("{}, {}", placed.track, lanes.size() + 1);
      lane = lanes.insert(lanes.end(), {to_.tracks.size(), {}});
      to_.tracks.push_back({process_, name, placed.is_range});
    }
    lane->ends.push_back(placed.slice.end_ns);
    placed.slice.track = lane->track;
    to_.slices.push_back(std::move(placed.slice));
  }

 private:
  struct Lane {
    std::size_t track;
    std::vector<std::int64_t> ends;  // of the slices around the last one, outermost first
  };
  std::string process_;
  Trace& to_;
  std::map<std::string, std::vector<Lane>> lanes_;
};

}  // namespace

void append_device_slices(std::span<const Record> records, std::span<const MarkSite> sites,
                          const ClockMap& clock, const std::string& process,
                          const std::string& processor, Trace& to) {
  std::vector<Placed> placed = RecordReader(sites, clock, processor).read(records);
  std::stable_sort(placed.begin(), placed.end(),
                   [](const Placed& a, const Placed& b) { return is_earlier(a.slice, b.slice); });
  number_by_passes(placed);
  Lanes lanes(process, to);
  for (Placed& each : placed) lanes.add(std::move(each));
}

}  // namespace attacca::trace
