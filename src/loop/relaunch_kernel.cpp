// relaunch_kernel.cpp: the body of the relaunching kernel. Compiled by nvcc in a CUDA build.
#include "loop/relaunch.hpp"

#include "loop/end_chain.hpp"

namespace attacca::loop {

namespace {
struct Relaunch {
  static constexpr const char* name = "again?";
  using Args = RelaunchArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = sizeof(unsigned)}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    // Its grid is one thread.
    if (*a.again == 0 || t.relaunch_self_as_first() != LaunchStatus::launched) end_chain(a.ended);
  }
};
}  // namespace

const Kernel<RelaunchArgs>& relaunch() {
  static const Kernel<RelaunchArgs> kernel = make_kernel<Relaunch>();
  return kernel;
}

}  // namespace attacca::loop
