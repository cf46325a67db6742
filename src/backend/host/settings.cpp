// settings.cpp: which versions launches still read, and the settings that none of them does.
#include "backend/host/settings.hpp"

#include <algorithm>

namespace attacca::host {

namespace {
constexpr std::size_t kLeastRoom = 4;  // of a list in `more_`; each has twice that of the last
}

void VersionedSettings::resize(std::size_t nodes) {
  count_ = nodes;
  first_ = std::make_unique<Settings[]>(nodes);
  newest_ = std::make_unique<std::atomic<Settings*>[]>(nodes);
  for (std::size_t node = 0; node < nodes; ++node)
    newest_[node].store(&first_[node], std::memory_order_relaxed);
}

Version VersionedSettings::take() {
  const std::lock_guard lock(mutex_);
  if (taken_.empty() || taken_.back().version != version_) taken_.push_back({version_, 0});
  ++taken_.back().launches;
  return version_;
}

void VersionedSettings::release(Version version) {
  const std::lock_guard lock(mutex_);
  --std::lower_bound(taken_.begin(), taken_.end(), version, [](const Taken& taken, Version than) {
      return taken.version < than;
    })->launches;
  while (!taken_.empty() && taken_.front().launches == 0) taken_.pop_front();
  while (!taken_.empty() && taken_.back().launches == 0) taken_.pop_back();
}

Settings& VersionedSettings::writable(std::size_t node) {
  Settings& now = newest(node);
  if (taken_.empty() || now.since > taken_.back().version) return now;
  version_ = std::max(version_, taken_.back().version + 1);
  Settings& next = spare(now);
  next.since = version_;
  next.before = &now;
  written_.push_back({node, &next});
  retired_.push_back({&now, version_});
  return next;
}

void VersionedSettings::publish() {
  // Only now that all settings are written. A release store after each node would wait until the
  // core that ran a launch has given up its copy of them: 128 µs instead of 99 for 1,000 nodes.
  for (const Written& written : written_)
    newest_[written.node].store(written.settings, std::memory_order_release);
  written_.clear();
}

/// Settings that no launch reads. Others may still point to them as `before`, but only launches of
/// older versions would follow that pointer, and these have ended.
Settings& VersionedSettings::spare(const Settings& like) {
  if (retired_.empty() || retired_.front().until > taken_.front().version) {
    if (more_.empty() || more_.back().size() == more_.back().capacity()) {
      const std::size_t doubled = more_.empty() ? 0 : 2 * more_.back().capacity();
      more_.emplace_back().reserve(std::max(kLeastRoom, doubled));
    }
    return more_.back().emplace_back(like);
  }
  Settings& free = *retired_.front().settings;
  retired_.pop_front();
  return free;
}

std::size_t VersionedSettings::bytes() const {
  std::size_t sum =
      count_ * (sizeof newest_[0] + sizeof first_[0]) + retired_.size() * sizeof(Retired);
  const auto add = [&](const Settings& settings) {
    if (const auto* kernel = std::get_if<graph::KernelPart>(&settings.part))
      sum += kernel->args.heap_bytes();
  };
  for (std::size_t node = 0; node < count_; ++node) add(first_[node]);
  for (const auto& list : more_) {
    sum += list.capacity() * sizeof list[0];
    for (const Settings& settings : list) add(settings);
  }
  return sum;
}

}  // namespace attacca::host
