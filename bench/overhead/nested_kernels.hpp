// nested_kernels.hpp: kernels that spawn kernels, and their hand-written twins. They need
// relocatable device code, so they are not in kernels.hpp.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/nested.hpp>

namespace bench::kernels {

/// The spawned kernel; it writes to one cell.
struct ChildArgs {
  unsigned* cell;
};
extern const attacca::Kernel<ChildArgs> child;

/// Spawns `children` kernels from one thread, each with its own cell.
struct SpawnArgs {
  unsigned* cells;
  unsigned children;
  attacca::SpawnMode mode;
};
extern const attacca::Kernel<SpawnArgs> spawn;

/// The twins, as cudaLaunchKernel takes them; null in a host build.
struct RawNestedKernels {
  const void* child;  // ChildArgs
  const void* spawn;  // SpawnArgs
};
extern const RawNestedKernels raw_nested;

}  // namespace bench::kernels
