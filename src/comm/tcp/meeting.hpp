// meeting.hpp: processes that know only the first one's address find each other.
#pragma once

#include <attacca/launch.hpp>
#include <chrono>
#include <vector>

#include "comm/tcp/socket.hpp"

namespace attacca::comm {

/// A connection to every other rank, by rank; none to this one. See join_tcp.
std::vector<Socket> meet(const Launch& launch, std::chrono::nanoseconds deadline);

}  // namespace attacca::comm
