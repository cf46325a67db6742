// relaunch_kernel.cpp: the body of the relaunching kernel. Compiled by nvcc in a CUDA build.
#include "loop/relaunch.hpp"

namespace attacca::loop {

namespace {
struct Relaunch {
  static constexpr const char* name = "again?";
  using Args = RelaunchArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = sizeof(unsigned)}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    if (*a.again != 0) t.relaunch_self_as_first();  // its grid is one thread
  }
};
}  // namespace

const Kernel<RelaunchArgs>& relaunch() {
  static const Kernel<RelaunchArgs> kernel = make_kernel<Relaunch>();
  return kernel;
}

}  // namespace attacca::loop
