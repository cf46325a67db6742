// place.cpp: the rules by which a kernel is placed, and the advice for each place.
#include "roofline/place.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "graph/print.hpp"

namespace attacca {

const char* limit_name(Limit limit) {
  static constexpr const char* kNames[] = {"memory", "compute", "launch", "neither", "unknown"};
  return kNames[static_cast<std::size_t>(limit)];
}

const char* tool_name(Tool tool) {
  static constexpr const char* kNames[] = {"fewer bytes",
                                           "more loads in flight",
                                           "faster arithmetic",
                                           "larger tiles",
                                           "fusion",
                                           "more blocks",
                                           "a graph",
                                           "programmatic edges",
                                           "a persistent kernel",
                                           "device launch",
                                           "concurrent branches"};
  return kNames[static_cast<std::size_t>(tool)];
}

namespace roofline {

namespace {

// A kernel that is faster than memory allows by more than this was served by a cache.
constexpr double kCached = 0.95;
// A kernel that is faster than all roofs allow by this factor declares more than it did.
constexpr double kImpossible = 1.1;
// A kernel of little work is launch-bound up to so many times an empty one, or a launch.
constexpr double kSmall = 3;
constexpr double kLaunches = 2;

/// Seconds per byte of memory. A kernel that declares its accesses is judged by its share of
/// writes, between reading alone and a copy, which writes half.
double seconds_per_byte(const PlacedKernel& kernel, const Roofs& roofs) {
  if (kernel.is_cached) return roofs.cache > 0 ? 1 / roofs.cache : 0;
  if (roofs.read <= 0) return 0;
  const double copied = roofs.copy > 0 ? std::min(1.0, 2 * kernel.written_share) : 0;
  return (1 - copied) / roofs.read + (copied > 0 ? copied / roofs.copy : 0);
}

/// The next faster arithmetic that was measured.
std::optional<Arithmetic> faster(Arithmetic than, const Roofs& roofs) {
  for (int at = static_cast<int>(than) + 1; at < kArithmetics; ++at)
    if (roofs.flops[static_cast<std::size_t>(at)] > 1.1 * roofs.flops_of(than))
      return static_cast<Arithmetic>(at);
  return {};
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

}  // namespace

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:.3g} s", us / 1e6);
  if (us >= 1e4) return fmt::format("{:.3g} ms", us / 1e3);
  if (us >= 1e3) return fmt::format("{:.0f} us", us);
  if (us >= 0.1 || us == 0) return fmt::format("{:.3g} us", us);
  return fmt::format("{:.3g} ns", us * 1e3);
}

std::string bytes_text(double bytes) { return graph::quantity_text(bytes, "B"); }

double memory_us(const PlacedKernel& kernel, const Roofs& roofs) {
  return 1e6 * kernel.cost.bytes * seconds_per_byte(kernel, roofs);
}

double compute_us(const PlacedKernel& kernel, const Roofs& roofs) {
  const double rate = roofs.flops_of(kernel.cost.arithmetic);
  return rate > 0 ? 1e6 * kernel.cost.flops / rate : 0;
}

void place(PlacedKernel& kernel, const Roofs& roofs) {
  kernel.is_cached = false;
  kernel.is_cached = roofs.cache > 0 && kernel.time_us < kCached * memory_us(kernel, roofs);
  const double memory = memory_us(kernel, roofs), compute = compute_us(kernel, roofs);
  kernel.floor_us = std::max(memory, compute);
  if ((kernel.cost.flops <= 0 && kernel.cost.bytes <= 0) || kernel.share() > kImpossible)
    kernel.limit = Limit::unknown;
  else if (kernel.floor_us <= roofs.node_us &&
           kernel.time_us <= std::max(kSmall * roofs.node_us, kLaunches * roofs.launch_us))
    kernel.limit = Limit::launch;
  else if (kernel.share() < kFar)
    kernel.limit = Limit::neither;
  else
    kernel.limit = memory >= compute ? Limit::memory : Limit::compute;
}

std::optional<RoofAdvice> advice_for(const PlacedKernel& kernel, const Roofs& roofs) {
  const auto count = static_cast<double>(kernel.count);
  const double above = std::max(0.0, kernel.time_us - kernel.floor_us);
  const bool is_near = kernel.share() >= kNear;
  const char* const level = kernel.is_cached ? "the cache" : "memory";
  const auto advice = [&](Tool tool, double gain, const std::string& text) {
    return RoofAdvice{tool, kernel.name, text + fmt::format(": {}", time_text(gain * count)),
                      gain * count};
  };
  const bool is_below =
      kernel.limit == Limit::neither ||
      (!is_near && (kernel.limit == Limit::memory || kernel.limit == Limit::compute));
  if (is_below && kernel.processors < 1)
    return advice(Tool::more_blocks,
                  kernel.time_us - std::max(kernel.floor_us, kernel.time_us * kernel.processors),
                  fmt::format("takes {} for {} of work, and its blocks use {} of the processors; "
                              "more blocks, or another kernel beside it, save up to",
                              time_text(kernel.time_us), time_text(kernel.floor_us),
                              percent(kernel.processors)));
  switch (kernel.limit) {
    case Limit::memory:
      if (is_near)
        return advice(Tool::fewer_bytes, memory_us(kernel, roofs) / 2,
                      fmt::format("moves {} at {} of what {} allows; a type of half the size saves",
                                  bytes_text(kernel.cost.bytes), percent(kernel.share()), level));
      return advice(Tool::more_loads, above,
                    fmt::format("moves {} at {} of what {} allows; more loads in flight, or "
                                "another kernel beside it, save up to",
                                bytes_text(kernel.cost.bytes), percent(kernel.share()), level));
    case Limit::compute: {
      const char* const now = arithmetic_name(kernel.cost.arithmetic);
      if (!is_near)
        return advice(Tool::larger_tiles, above,
                      fmt::format("computes at {} of the {} roof; larger tiles and more "
                                  "independent sums save up to",
                                  percent(kernel.share()), now));
      const std::optional<Arithmetic> next = faster(kernel.cost.arithmetic, roofs);
      if (!next)
        return RoofAdvice{Tool::faster_arithmetic, kernel.name,
                          fmt::format("computes at {} of the {} roof, and no faster arithmetic is "
                                      "there; only fewer FLOPs help",
                                      percent(kernel.share()), now)};
      const double saved = compute_us(kernel, roofs) *
                           (1 - roofs.flops_of(kernel.cost.arithmetic) / roofs.flops_of(*next));
      return advice(Tool::faster_arithmetic, saved,
                    fmt::format("computes at {} of the {} roof; {} saves", percent(kernel.share()),
                                now, arithmetic_name(*next)));
    }
    case Limit::launch:
      return advice(Tool::fusion, std::max(0.0, roofs.node_us - kernel.floor_us),
                    fmt::format("its work is worth {} and a node costs {}; one kernel with a "
                                "neighbour saves up to",
                                time_text(kernel.floor_us), time_text(roofs.node_us)));
    case Limit::neither:
      return advice(Tool::more_loads, above,
                    fmt::format("takes {} for {} of work, far below both roofs; more work in "
                                "flight saves up to",
                                time_text(kernel.time_us), time_text(kernel.floor_us)));
    case Limit::unknown:
      break;
  }
  return {};
}

}  // namespace roofline

}  // namespace attacca
