// launch.cpp: recognises launchers by the variables they set.
#include <attacca/launch.hpp>
#include <attacca/mpi.hpp>

#include <cstdlib>

namespace attacca {

bool is_mpi_launch() {
  // Open MPI, MPICH and its relatives, and srun with a PMIx plugin.
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

std::optional<Group> join_processes(const RanksOptions& options) {
  const std::optional<Launch> launch = find_launch();
  if (is_mpi_launch() && (has_mpi() || !launch)) return join_mpi(options);
  if (launch) return join_tcp(*launch, options);
  return {};
}

}  // namespace attacca
