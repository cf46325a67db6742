// ranks_kernels.cpp: adds two arrays element by element, on the host in one loop.
#include "ranks/ranks_kernels.hpp"

namespace bench {

namespace {

struct AddBoth {
  static constexpr const char* name = "add_both";
  using Args = AddBothArgs;
  static attacca::Cost cost(const Args& a) {
    return {.flops = 1.0 * static_cast<double>(a.count),
            .bytes = 16.0 * static_cast<double>(a.count)};
  }
  static void host(const attacca::Grid&, const Args& a) { run(a, 0, 1); }
  ATTACCA_DEVICE static void cuda(attacca::Thread& t, const Args& a) {
    run(a, t.index(), t.stride());
  }

 private:
  ATTACCA_HD static void run(const Args& a, std::uint64_t first, std::uint64_t step) {
    for (std::uint64_t at = first; at < a.count; at += step) {
      const float sum = a.a[at] + a.b[at];
      a.a[at] = sum;
      a.b[at] = sum;
    }
  }
};

}  // namespace

const attacca::Kernel<AddBothArgs> add_both = attacca::make_kernel<AddBoth>();

}  // namespace bench
