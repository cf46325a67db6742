// next_arm_kernel.cpp: the body of the kernel that launches the next arm. Compiled by nvcc in a
// CUDA build.
#include "loop/next_arm.hpp"

namespace attacca::loop {

namespace {
struct NextArm {
  static constexpr const char* name = "next arm";
  static constexpr bool waits = true;
  using Args = NextArmArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = 2 * sizeof(unsigned)}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    t.wait_for_producers();
    if (a.again && *a.again == 0) return;
    const unsigned arm = *a.arm < a.none ? *a.arm : a.none;
    if (arm == a.own)
      t.relaunch_self_as_first();  // its grid is one thread
    else
      t.launch(a.graphs[arm], LaunchMode::tail);
  }
};
}  // namespace

const Kernel<NextArmArgs>& next_arm() {
  static const Kernel<NextArmArgs> kernel = make_kernel<NextArm>();
  return kernel;
}

}  // namespace attacca::loop
