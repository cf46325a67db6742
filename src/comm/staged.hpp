// staged.hpp: exchanges of device memory through host memory, for groups that move only that.
#pragma once

#include <memory>

#include "comm/group.hpp"

namespace attacca::comm {

/// A group whose collectives are work of `device`: a copy to pinned memory, a host call of
/// `control`'s collective, and a copy back. REQUIRES: every rank is a process. Host calls of a
/// device's streams may take turns, so two ranks that wait for each other must not share them.
std::shared_ptr<GroupImpl> stage(std::shared_ptr<GroupImpl> control, const Device& device);

}  // namespace attacca::comm
