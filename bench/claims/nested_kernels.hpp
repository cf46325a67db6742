// nested_kernels.hpp: a tree of kernels, of which each does some arithmetic and then has two
// children: spawned by it, or launched by the host. Apart from launch_kernels.hpp, since spawning
// needs relocatable device code.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/nested.hpp>
#include <cstdint>

namespace bench::claims {

/// When a kernel ran.
struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

/// One kernel of a tree. Kernel 0 is the root; those of kernel k are 2k + 1 and 2k + 2.
struct BranchArgs {
  Span* spans;        // one for each kernel
  unsigned* numbers;  // what came out of the arithmetic, one for each kernel
  unsigned kernel;
  unsigned levels;  // below this one
  unsigned turns;
  attacca::SpawnMode mode;
};
/// Spawns its children.
extern const attacca::Kernel<BranchArgs> branch;
/// Leaves them to the host.
extern const attacca::Kernel<BranchArgs> lone_branch;

}  // namespace bench::claims
