// nested_kernels.hpp: a tree of kernels. Each does some arithmetic and has two children, which it
// spawns or the host launches. Spawning needs relocatable device code, so they are not in
// launch_kernels.hpp.
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

/// One kernel of a tree. Kernel 0 is the root; the children of kernel k are 2k + 1 and 2k + 2.
struct BranchArgs {
  Span* spans;        // one for each kernel
  unsigned* numbers;  // results of the arithmetic, one for each kernel
  unsigned kernel;
  unsigned levels;  // below this one
  unsigned turns;
  attacca::SpawnMode mode;
};
/// Spawns its children.
extern const attacca::Kernel<BranchArgs> branch;
/// Leaves its children to the host.
extern const attacca::Kernel<BranchArgs> lone_branch;

}  // namespace bench::claims
