// log.hpp: reads on the host what kernels recorded: logs of tags and tallies of statuses.
#pragma once

#include <attacca/memory.hpp>

#include <numeric>
#include <vector>

#include "support/kernels.hpp"

namespace attacca::test {

/// Tags in the order kernels noted them; room for 512.
class DeviceLog {
 public:
  explicit DeviceLog(const Device& device)
      : next_(device, std::vector<unsigned>{0}), entries_(device, std::vector<int>(512)) {}
  Log view() const { return {next_.data(), entries_.data()}; }
  std::vector<int> read() const {
    std::vector<int> entries = entries_.read();
    entries.resize(next_.read().front());
    return entries;
  }
  void clear() { next_.write(std::vector<unsigned>{0}); }

 private:
  Buffer<unsigned> next_;
  Buffer<int> entries_;
};

/// How often each LaunchStatus came back.
class DeviceTally {
 public:
  explicit DeviceTally(const Device& device) : counts_(device, std::vector<unsigned>(kStatuses)) {}
  Tally view() const { return {counts_.data()}; }
  unsigned of(LaunchStatus status) const { return counts_.read()[static_cast<unsigned>(status)]; }
  unsigned total() const {
    const std::vector<unsigned> counts = counts_.read();
    return std::accumulate(counts.begin(), counts.end(), 0u);
  }

 private:
  Buffer<unsigned> counts_;
};

}  // namespace attacca::test
