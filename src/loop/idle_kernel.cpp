// idle_kernel.cpp: the bodies of the idle kernels. Compiled by nvcc in a CUDA build.
#include "loop/idle_kernels.hpp"

namespace attacca::loop {

namespace {
struct Idle {
  static constexpr const char* name = "idle";
  using Args = IdleArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = 0}; }
  ATTACCA_HD static void body(Thread&, const Args&) {}
};
struct Count {
  static constexpr const char* name = "count passes";
  using Args = CountArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = sizeof(unsigned)}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.again.set(--*a.left != 0);
  }
};
struct Choose {
  static constexpr const char* name = "choose arm";
  using Args = ChooseArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = sizeof(unsigned)}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    const unsigned left = --*a.left;
    a.again.set(left != 0);
    a.arm.set(left != 0 ? left % 2 : 2);
  }
};
}  // namespace

const Kernel<IdleArgs>& idle() {
  static const Kernel<IdleArgs> kernel = make_kernel<Idle>();
  return kernel;
}
const Kernel<CountArgs>& count_passes() {
  static const Kernel<CountArgs> kernel = make_kernel<Count>();
  return kernel;
}
const Kernel<ChooseArgs>& choose_arm() {
  static const Kernel<ChooseArgs> kernel = make_kernel<Choose>();
  return kernel;
}
const PersistentProgram& idle_and_count() {
  static const PersistentProgram program = make_persistent<Idle, Count>();
  return program;
}

}  // namespace attacca::loop
