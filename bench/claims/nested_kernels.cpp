// nested_kernels.cpp: the kernels of nested_kernels.hpp. Compiled by nvcc with -rdc=true in a CUDA
// build.
#include "claims/nested_kernels.hpp"

#include "claims/launch_kernels.hpp"

namespace bench::claims {

using attacca::Cost;
using attacca::SpawningThread;
using attacca::Thread;

namespace {

struct BranchKernel {
  using Args = BranchArgs;
  static Cost cost(const Args& a) { return {.flops = 2.0 * a.turns, .bytes = sizeof(Span)}; }
  ATTACCA_HD static void work(const Args& a) { a.numbers[a.kernel] = turned(a.kernel, a.turns); }
};

struct LoneBranch : BranchKernel {
  static constexpr const char* name = "lone_branch";
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    const std::int64_t start = now_ns();
    work(a);
    a.spans[a.kernel] = {start, now_ns()};
  }
};

struct Branch : BranchKernel {
  static constexpr const char* name = "branch";
  ATTACCA_HD static void body(SpawningThread& t, const Args& a) {
    if (!t.is_first()) return;
    const std::int64_t start = now_ns();
    work(a);
    for (unsigned child = 2 * a.kernel + 1; a.levels != 0 && child <= 2 * a.kernel + 2; ++child) {
      Args args = a;
      args.kernel = child;
      args.levels = a.levels - 1;
      t.spawn<Branch>(attacca::Grid{{1, 1, 1}, {32, 1, 1}}, args, a.mode);
    }
    a.spans[a.kernel] = {start, now_ns()};
  }
};

}  // namespace

const attacca::Kernel<BranchArgs> branch = attacca::make_kernel<Branch>();
const attacca::Kernel<BranchArgs> lone_branch = attacca::make_kernel<LoneBranch>();

}  // namespace bench::claims
