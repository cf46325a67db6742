// no_mpi.cpp: the functions of mpi.hpp in a build without MPI.
#include <attacca/mpi.hpp>

namespace attacca {

bool has_mpi() { return false; }

std::string describe_mpi() {
  return "not in this build; install libopenmpi-dev and configure again";
}

Group join_mpi(const RanksOptions&) {
  throw BadArgument("this build of attacca has no MPI; install libopenmpi-dev and configure again");
}

}  // namespace attacca
