// occupancy.cpp: the arithmetic of waves, and the words for it.
#include <attacca/error.hpp>
#include <attacca/occupancy.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/counted.hpp"
#include "graph/argument_checks.hpp"
#include "graph/executor.hpp"

namespace attacca {

namespace {

const char* name_of(OccupancyLimit limit) {
  switch (limit) {
    case OccupancyLimit::threads:
      return "threads";
    case OccupancyLimit::blocks:
      return "the number of blocks it can hold";
    case OccupancyLimit::registers:
      return "registers";
    case OccupancyLimit::shared_memory:
      return "shared memory";
    case OccupancyLimit::workers:
      return "one block per worker";
  }
  return "";
}

/// A share in percent; 100% only where the share is whole.
std::string percent(double share) {
  return fmt::format("{:.0f}%", share < 1 ? std::min(99.0, share * 100) : 100.0);
}

}  // namespace

Occupancy occupancy(const Residency& residency, const KernelInfo& kernel, const Grid& grid) {
  graph::check_grid(kernel, grid);
  if (residency.processors == 0 || residency.blocks_per_processor == 0)
    throw BadArgument(
        fmt::format("kernel '{}': not one block of {} threads with {} bytes of shared memory fits "
                    "on a processor; use smaller blocks or less shared memory",
                    kernel.name, grid.threads.count(), grid.shared_bytes));
  Occupancy result;
  result.kernel = kernel.name;
  result.residency = residency;
  result.blocks = grid.blocks.count();
  result.resident_blocks =
      static_cast<std::uint64_t>(residency.processors) * residency.blocks_per_processor;
  const auto blocks = static_cast<double>(result.blocks);
  const auto resident = static_cast<double>(result.resident_blocks);
  result.waves = blocks / resident;
  result.last_wave_blocks = (result.blocks - 1) % result.resident_blocks + 1;
  result.last_wave_share = static_cast<double>(result.last_wave_blocks) / resident;
  const std::uint64_t started = (result.blocks - 1) / result.resident_blocks + 1;
  result.share = result.waves / static_cast<double>(started);
  result.busy_processors =
      static_cast<unsigned>(std::min<std::uint64_t>(result.blocks, residency.processors));
  result.thread_share =
      residency.limit == OccupancyLimit::workers
          ? 1
          : static_cast<double>(residency.blocks_per_processor * grid.threads.count()) /
                residency.threads_per_processor;
  result.advised_blocks =
      std::max<std::uint64_t>(1, result.blocks / result.resident_blocks) * result.resident_blocks;
  return result;
}

Occupancy occupancy(const Device& device, const KernelInfo& kernel, const Grid& grid) {
  graph::check_grid(kernel, grid);
  return occupancy(graph::impl_of(device).residency(kernel, grid), kernel, grid);
}

std::string Occupancy::explain() const {
  std::string text =
      fmt::format("{} of '{}' on {} that take {} each, limited by {}: {:.2f} waves of {}.",
                  counted(blocks, "block"), kernel, counted(residency.processors, "processor"),
                  residency.blocks_per_processor, name_of(residency.limit), waves, resident_blocks);
  if (fills_whole_waves()) return text + " Every wave is full.";
  if (blocks < resident_blocks)
    text += fmt::format(" The launch fills {} of the device and leaves {} idle.", percent(share),
                        counted(residency.processors - busy_processors, "processor"));
  else
    text += fmt::format(
        " The last wave has {} and fills {} of the device, the whole launch {} of its time.",
        counted(last_wave_blocks, "block"), percent(last_wave_share), percent(share));
  return text + fmt::format(" With {} blocks {} would be full.", advised_blocks,
                            advised_blocks == resident_blocks ? "one wave" : "every wave");
}

}  // namespace attacca
