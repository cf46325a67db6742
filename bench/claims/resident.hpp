// resident.hpp: the by-hand peer of the resident scheduler; see resident.cu. Only in CUDA builds.
#pragma once

namespace bench::claims {

struct ByHandArgs {
  unsigned* next;  // zero at first
  unsigned limit;
  unsigned* current;
  void* work;  // a cudaGraphExec_t
};
/// The kernel, which takes a ByHandArgs.
const void* take_next();

}  // namespace bench::claims
