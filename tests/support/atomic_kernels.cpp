// atomic_kernels.cpp: the body of the kernel that uses every atomic operation.
#include "support/atomic_kernels.hpp"

namespace attacca::test {

namespace {

struct UseAtomics {
  static constexpr const char* name = "use_atomics";
  using Args = AtomicArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = sizeof(EveryScope)}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    use_all_cells(a.cells->gpu, t.index());
    use_all_cells(a.cells->system, t.index());
    if (t.block.x != 0) return;
    use_all_cells(a.cells->block, t.index());
    use_all_cells(a.cells->cluster, t.index());
  }
};

}  // namespace

const Kernel<AtomicArgs> use_atomics = make_kernel<UseAtomics>();

}  // namespace attacca::test
