// watch.cpp: the meetings of the watches.
#include "comm/nccl/watch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "comm/waits.hpp"

namespace attacca::comm {

namespace {

using namespace std::chrono_literals;

/// A group of its own, since it meets while others work.
Group group_of_all(GroupImpl& control) {
  std::vector<int> all(static_cast<std::size_t>(control.size()));
  std::iota(all.begin(), all.end(), 0);
  return Access::group(control.subgroup(all));
}

}  // namespace

Watch::Watch(GroupImpl& control, std::uint64_t& ended, std::function<void()> stop)
    : watchers_(group_of_all(control)),
      ended_(ended),
      stop_(std::move(stop)),
      seen_(static_cast<std::size_t>(control.size())),
      thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watch::run() {
  try {
    while (meet()) {
    }
  } catch (...) {  // the program is broken, and the others know
    stop_();
  }
}

/// Whether this rank leaves.
bool Watch::wait_for_turn() {
  const auto pause = std::clamp<std::chrono::nanoseconds>(watchers_.deadline() / 8, 10ms, 250ms);
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, pause, [&] { return is_ending_; });
}

bool Watch::is_overdue(const std::vector<Beat>& beats) {
  const Clock::time_point now = Clock::now();
  bool is_overdue = false;
  for (std::size_t rank = 0; rank < beats.size(); ++rank) {
    const Beat& beat = beats[rank];
    Seen& seen = seen_[rank];
    if (beat.launched <= beat.ended || beat.ended != seen.ended) seen = {beat.ended, now};
    is_overdue = is_overdue || now - seen.waits_since >= watchers_.deadline();
  }
  return is_overdue;
}

bool Watch::meet() {
  const bool is_leaving = wait_for_turn();
  const std::uint64_t ended = std::atomic_ref(ended_).load(std::memory_order_acquire);
  const Beat own{launched_, ended, is_leaving};
  std::vector<Beat> beats(seen_.size());
  watchers_.all_gather(std::span(&own, 1), std::span(beats)).named("watch of NCCL").run();
  if (std::any_of(beats.begin(), beats.end(),
                  [](const Beat& beat) { return beat.is_leaving != 0; }))
    return false;
  if (!is_overdue(beats)) return true;
  Access::impl(watchers_)->fail(story_of(beats));
  return false;
}

/// Names the ranks that launched least, if they wait for none of theirs.
std::string Watch::story_of(const std::vector<Beat>& beats) const {
  const auto by_launched = [](const Beat& a, const Beat& b) { return a.launched < b.launched; };
  const auto by_ended = [](const Beat& a, const Beat& b) { return a.ended < b.ended; };
  const auto [fewest, most] = std::minmax_element(beats.begin(), beats.end(), by_launched);
  const double seconds = seconds_of(watchers_.deadline());
  std::vector<int> absent;
  for (std::size_t rank = 0; rank < beats.size(); ++rank)
    if (beats[rank].launched == fewest->launched && beats[rank].launched <= beats[rank].ended)
      absent.push_back(Access::impl(watchers_)->world_rank(static_cast<int>(rank)));
  if (!absent.empty())
    return fmt::format(
        "{} launched {} exchanges through NCCL, and others up to {}; no more ended within {:.3g} s",
        list_ranks(absent), fewest->launched, most->launched, seconds);
  const std::string launched = fewest->launched == most->launched
                                   ? std::to_string(most->launched)
                                   : fmt::format("{} to {}", fewest->launched, most->launched);
  return fmt::format(
      "all ranks launched {} exchanges through NCCL, and {} ended; no more did within {:.3g} s",
      launched, std::min_element(beats.begin(), beats.end(), by_ended)->ended, seconds);
}

}  // namespace attacca::comm
