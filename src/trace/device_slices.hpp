// device_slices.hpp: what graphs and kernels recorded of themselves, as slices: each pass of a
// loop, each arm, each graph that device code launched and who launched it, each claim of a worker.
#pragma once

#include <attacca/device/records_ref.hpp>
#include <attacca/trace.hpp>
#include <cstdint>
#include <span>
#include <string>

#include "graph/marks.hpp"

namespace attacca::trace {

/// Turns times of a device's clock into those of ours. Clocks drift, so two moments fix it.
struct ClockMap {
  struct Moment {
    std::uint64_t theirs = 0;
    std::int64_t ours = 0;
  };
  Moment first = {}, last = {};

  std::int64_t ours(std::uint64_t theirs) const;
};

/// The same moment by both clocks, as close as a few launches of a kernel tell.
ClockMap::Moment moment_of(const Device& device);

/// Appends the slices. Passes, arms, graphs and claims go on tracks of ranges. `processor` is what
/// an argument of the slices calls the place that ran them. A begin or an end whose other half was
/// overwritten is left out.
void append_device_slices(std::span<const device::Record> records,
                          std::span<const graph::MarkSite> sites, const ClockMap& clock,
                          const std::string& process, const std::string& processor, Trace& to);

}  // namespace attacca::trace
