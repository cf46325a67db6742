// group.hpp: ranks that share symmetric memory of GPUs through NVSHMEM.
#pragma once

#include <memory>

#include "comm/group.hpp"

namespace attacca::comm {

/// A collective call. `control`, a group of the same ranks that nobody else uses, carries NVSHMEM's
/// id and compares collectives. Throws BadArgument, on all ranks alike, if a rank has no NVSHMEM,
/// NVSHMEM refuses, or a GPU cannot address another rank's memory. REQUIRES: every rank is a
/// process, which calls it once.
std::shared_ptr<GroupImpl> join_nvshmem(std::shared_ptr<GroupImpl> control, const Device& device);

}  // namespace attacca::comm
