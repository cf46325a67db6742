// direct.hpp: exchanges of device memory that the ranks' wire moves itself, as a CUDA-aware MPI
// does.
#pragma once

#include <memory>

#include "comm/group.hpp"

namespace attacca::comm {

/// A group whose exchanges on streams hold the caller: it waits for the stream, and then for the
/// other ranks. In graphs they are staged. REQUIRES: every rank is a process, at most kMostSharing
/// ranks, and their wire takes memory of `device`.
std::shared_ptr<GroupImpl> join_direct(std::shared_ptr<GroupImpl> control, const Device& device);

}  // namespace attacca::comm
