// compare.hpp: ranks tell each other on the host what they are about to call on a device.
#pragma once

#include "comm/group.hpp"

namespace attacca::comm {

/// Throws RanksBroken, on all ranks alike, if they differ. Those that take part wait for each
/// other: all ranks of a collective, the two of a send and its receive. REQUIRES: not one-sided.
void compare_on_host(GroupImpl& control, const ExchangeData& exchange);

/// Throws BadArgument, on all ranks alike, with the problem of the first rank that has one and the
/// remedy. A collective call.
void tell_all(GroupImpl& control, const std::string& own_problem, const std::string& remedy);

}  // namespace attacca::comm
