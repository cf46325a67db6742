// group.hpp: ranks that exchange GPU memory through NCCL.
#pragma once

#include <memory>

#include "comm/group.hpp"

namespace attacca::comm {

/// A collective call. `control`, a group of the same ranks that nobody else uses, carries the
/// communicator's id and compares exchanges before NCCL starts them, because NCCL waits for ever
/// for a rank that calls something else. Throws BadArgument, on all ranks alike, if a rank has no
/// NCCL or NCCL refuses.
std::shared_ptr<GroupImpl> join_nccl(std::shared_ptr<GroupImpl> control, const Device& device);

}  // namespace attacca::comm
