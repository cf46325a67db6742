// residency.hpp: kernels whose blocks wait for each other (KernelTraits::blocks_wait) need all of
// them on the device at once, or those that run wait for ones that cannot start.
#pragma once

#include <attacca/kernel.hpp>
#include <optional>
#include <string>

#include "graph/executor.hpp"

namespace attacca::graph {

/// Why blocks of kernel `name` may not be on the device together; nothing where they are or need
/// not be. What other kernels take of the device at the same time is not counted.
std::optional<std::string> find_crowding(DeviceImpl& device, const KernelInfo& kernel,
                                         const Grid& grid, const std::string& name);
/// Throws GraphError for such a kernel.
void check_residency(DeviceImpl& device, const KernelInfo& kernel, const Grid& grid,
                     const std::string& name);

}  // namespace attacca::graph
