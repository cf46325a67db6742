// launch.hpp: ranks as processes on one machine or many, joined by TCP. A launcher such as torchrun
// or srun tells each process its number and where to find the first one. mpi.hpp is for mpirun.
#pragma once

#include <attacca/ranks.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace attacca {

/// This process among those that a launcher started.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0;   // among the processes of its machine
  std::string address;  // of rank 0: a name or a number
  std::uint16_t port = 0;
};

/// What the environment says: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_RANK as torchrun
/// sets them, or else the variables of a step of srun. ATTACCA_PORT replaces the port. Nothing if
/// there are neither. Throws BadArgument for a value that makes no sense.
std::optional<Launch> find_launch();

/// The group of all these processes. Throws RanksBroken, on every rank that has come, if not all
/// come within the deadline, and BadArgument if the address or the port cannot be used. Anyone who
/// can reach the port can pose as a rank until all have come, so use it in networks that you trust.
Group join_tcp(const Launch& launch, const RanksOptions& options = {});

}  // namespace attacca
