// lock_step_kernels.cpp: the body of a kernel that goes in step with those of other ranks. nvcc
// compiles it in a CUDA build.
#include "support/lock_step_kernels.hpp"

namespace attacca::test {

namespace {

struct LockStep {
  static constexpr const char* name = "lock_step";
  static constexpr const char* waits_for[] = {"the other ranks"};
  using Args = LockStepArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
    if (!t.is_first()) return;
    std::uint32_t met = a.past;
    const auto meet = [&] {
      const int missing = a.barrier.meet(++met, a.patience_nanoseconds);
      if (missing != a.barrier.ranks) t.give_up(0, met, met - 1, a.patience_nanoseconds);
      return missing == a.barrier.ranks;
    };
    int sum = 0;
    for (std::uint32_t turn = 1; turn <= a.turns; ++turn) {
      *a.next = 100 * a.barrier.rank + static_cast<int>(turn);
      if (!meet()) return;
      sum += *a.own;
      if (!meet()) return;  // all have read
    }
    *a.sum = sum;
  }
};

}  // namespace

const Kernel<LockStepArgs> lock_step = make_kernel<LockStep>();

}  // namespace attacca::test
