// nested_kernels.hpp: test kernels that spawn kernels. Their file is compiled with relocatable
// device code, apart from kernels.cpp.
#pragma once

#include <attacca/nested.hpp>

#include "support/kernels.hpp"

namespace attacca::test {

/// Every thread of the grid spawns `times` kernels that each add one to *count.
struct SpawnArgs {
  unsigned* count;
  unsigned times;
  SpawnMode mode;
  Tally tally;
};
extern const Kernel<SpawnArgs> spawn;

/// Fires notes 10 and 11, asks for tails 1, 2 and 3, and notes 0 itself.
struct SpawnOrderArgs {
  Log log;
};
extern const Kernel<SpawnOrderArgs> spawn_in_order;

/// Adds one to *leaves at depth 0; above it spawns itself twice.
struct TreeArgs {
  unsigned* leaves;
  unsigned depth;
};
extern const Kernel<TreeArgs> tree;

/// Spawns one kernel with the grid it is given.
struct SpawnGridArgs {
  unsigned* count;
  Grid grid;
  Tally tally;
};
extern const Kernel<SpawnGridArgs> spawn_grid;

/// Spawns `times` kernels and then throws, on the host.
extern const Kernel<SpawnArgs> spawn_then_throw;

}  // namespace attacca::test
