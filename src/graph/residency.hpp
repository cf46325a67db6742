// residency.hpp: kernels whose blocks wait for each other (KernelTraits::blocks_wait) need all
// their blocks on the device at once. Otherwise blocks that run would wait for blocks that cannot
// start.
#pragma once

#include <attacca/kernel.hpp>
#include <optional>
#include <string>

#include "graph/executor.hpp"

namespace attacca::graph {

/// The reason why the blocks of kernel `name` may not fit on the device together; nothing where
/// they fit, or need not. Other kernels that run at the same time are not counted.
std::optional<std::string> find_crowding(DeviceImpl& device, const KernelInfo& kernel,
                                         const Grid& grid, const std::string& name);
/// Throws GraphError for such a kernel.
void check_residency(DeviceImpl& device, const KernelInfo& kernel, const Grid& grid,
                     const std::string& name);

}  // namespace attacca::graph
