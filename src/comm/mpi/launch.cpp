// launch.cpp: recognises a launcher of MPI by the variables it sets.
#include <attacca/mpi.hpp>

#include <cstdlib>

namespace attacca {

bool is_mpi_launch() {
  // Open MPI, MPICH and its relatives, and srun with a PMIx plugin.
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

}  // namespace attacca
