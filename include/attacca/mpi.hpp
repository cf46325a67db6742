// mpi.hpp: ranks as processes that mpirun or srun started, through MPI. Link attacca::mpi. Without
// MPI at configure time these functions are there, and say so.
#pragma once

#include <attacca/ranks.hpp>
#include <optional>
#include <string>

namespace attacca {

/// Whether this build has MPI.
bool has_mpi();
/// The MPI library with its version, and how it moves memory of GPUs. If this build has none: how
/// to get one.
std::string describe_mpi();

/// Whether the environment says that a launcher of MPI started this process as one of several
/// ranks.
bool is_mpi_launch();

/// Starts MPI and returns the group of all processes. Throws RanksBroken if they have not all come
/// within the deadline, and BadArgument if this build has no MPI or a process calls it twice. A
/// process that drops its last Group waits, up to the deadline, until all have dropped theirs, and
/// then finalises MPI. After a failure MPI is not finalised, because that would wait for the
/// missing rank.
Group join_mpi(const RanksOptions& options = {});

/// The group of the processes that a launcher started, through MPI if it is one of MPI's and this
/// build has it, else through TCP; see launch.hpp. Nothing if no launcher started this process.
std::optional<Group> join_processes(const RanksOptions& options = {});

}  // namespace attacca
