// nested_kernels.hpp: kernels that spawn kernels, and their twins by hand. Apart from kernels.hpp,
// since they need relocatable device code.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/nested.hpp>

namespace bench::kernels {

/// Writes to one cell: what is spawned.
struct ChildArgs {
  unsigned* cell;
};
extern const attacca::Kernel<ChildArgs> child;

/// Spawns `children` of them from one thread, each with a cell of its own.
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
