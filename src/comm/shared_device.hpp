// shared_device.hpp: ranks that are threads of one process and share a device.
#pragma once

#include <memory>

#include "comm/group.hpp"

namespace attacca::comm {

/// A group whose collectives are kernels of `device`. `control`, a group of the same ranks that
/// nobody else uses, is where the threads meet before they hand work to the device.
std::shared_ptr<GroupImpl> share_device(std::shared_ptr<GroupImpl> control, const Device& device);

}  // namespace attacca::comm
