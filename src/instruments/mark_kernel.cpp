// mark_kernel.cpp: the body of the marking kernel. Compiled by nvcc in a CUDA build.
#include <attacca/mark.hpp>

namespace attacca {

namespace {
struct Mark {
  static constexpr const char* name = "mark";
  static constexpr bool waits = true;
  using Args = MarkArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = sizeof(device::Record)}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    t.wait_for_producers();
    if (!t.is_first()) return;
    if (a.pass && a.counts != MarkArgs::Pass::same)
      *a.pass = a.counts == MarkArgs::Pass::next ? *a.pass + 1 : 0;
    a.records.add(a.what, a.value, a.pass ? *a.pass : 0);
  }
};
}  // namespace

const Kernel<MarkArgs>& mark() {
  static const Kernel<MarkArgs> kernel = make_kernel<Mark>();
  return kernel;
}

}  // namespace attacca
