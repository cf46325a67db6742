// fetch_add_kernel.cpp: one atomic addition at system scope, since other processes and GPUs add to
// the same counter. Compiled by nvcc in a CUDA build.
#include "comm/fetch_add_kernel.hpp"

#include <attacca/device/atomic.hpp>

namespace attacca::comm {

namespace {

struct FetchAdd {
  static constexpr const char* name = "fetch_add";
  using Args = FetchAddArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 24}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (!t.is_first()) return;
    *a.before = device::AtomicRef<std::uint64_t, device::Scope::system>(*a.counter)
                    .fetch_add(a.value, device::acq_rel);
  }
};

}  // namespace

const Kernel<FetchAddArgs>& fetch_add_kernel() {
  static const Kernel<FetchAddArgs> kernel = make_kernel<FetchAdd>();
  return kernel;
}

}  // namespace attacca::comm
