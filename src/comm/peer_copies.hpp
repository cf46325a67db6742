// peer_copies.hpp: ranks that are threads, each with a device of its own, and copy from each other.
#pragma once

#include <memory>

#include "comm/group.hpp"

namespace attacca::comm {

/// `control`, a group of the same ranks that nobody else uses, is where they meet before and after
/// they copy. REQUIRES: ranks are threads of this process, and their devices differ.
std::shared_ptr<GroupImpl> join_peers(std::shared_ptr<GroupImpl> control, const Device& device);

}  // namespace attacca::comm
