// group.hpp: ranks that are processes.
#pragma once

#include <attacca/ranks.hpp>
#include <memory>

#include "comm/process/wire.hpp"

namespace attacca::comm {

/// The group of all processes that a wire joins. The last Group and Exchange to go end the wire,
/// after all ranks have dropped theirs, or at the deadline.
Group group_of_processes(std::unique_ptr<Wire> wire, const RanksOptions& options);

}  // namespace attacca::comm
