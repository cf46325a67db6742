// watch.cpp: the meetings of the watches.
#include "comm/nccl/watch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
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

Watch::Watch(GroupImpl& control, std::function<void()> stop)
    : watchers_(group_of_all(control)), stop_(std::move(stop)), thread_([this] { run(); }) {}

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

bool Watch::meet() {
  const bool is_leaving = wait_for_turn();
  const Beat own{launched_, is_leaving};
  std::vector<Beat> beats(static_cast<std::size_t>(watchers_.size()));
  watchers_.all_gather(std::span(&own, 1), std::span(beats)).named("watch of NCCL").run();
  if (std::any_of(beats.begin(), beats.end(),
                  [](const Beat& beat) { return beat.is_leaving != 0; }))
    return false;
  const auto [fewest, most] = std::minmax_element(
      beats.begin(), beats.end(),
      [](const Beat& one, const Beat& other) { return one.launched < other.launched; });
  const auto now = std::chrono::steady_clock::now();
  if (fewest->launched == most->launched || fewest->launched != fewest_) behind_since_ = now;
  fewest_ = fewest->launched;
  if (now - behind_since_ < watchers_.deadline()) return true;
  std::vector<int> behind;
  for (std::size_t rank = 0; rank < beats.size(); ++rank)
    if (beats[rank].launched == fewest->launched)
      behind.push_back(Access::impl(watchers_)->world_rank(static_cast<int>(rank)));
  Access::impl(watchers_)->fail(fmt::format(
      "{} launched {} exchanges through NCCL, and others {}; no more came within {:.3g} s",
      list_ranks(behind), fewest->launched, most->launched, seconds_of(watchers_.deadline())));
  return false;
}

}  // namespace attacca::comm
