// residency.cpp: compares a grid with the number of blocks that fit, and words the refusal.
#include "graph/residency.hpp"

#include <fmt/core.h>

namespace attacca::graph {

std::optional<std::string> find_crowding(DeviceImpl& device, const KernelInfo& kernel,
                                         const Grid& grid, const std::string& name) {
  if (!kernel.traits.blocks_wait) return std::nullopt;
  const std::uint64_t fitting = device.blocks_at_once(kernel, grid);
  if (grid.blocks.count() <= fitting) return std::nullopt;
  return fmt::format(
      "kernel '{}': its blocks wait for each other, and of {} blocks of {} threads with {} bytes "
      "of "
      "shared memory {} fit on {} at once; use at most {} blocks, or smaller ones",
      name, grid.blocks.count(), grid.threads.count(), grid.shared_bytes, fitting, device.name(),
      fitting);
}

void check_residency(DeviceImpl& device, const KernelInfo& kernel, const Grid& grid,
                     const std::string& name) {
  if (const auto why = find_crowding(device, kernel, grid, name))
    throw GraphError(Rule::blocks_may_not_fit, name, *why);
}

}  // namespace attacca::graph
