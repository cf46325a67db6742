// litmus_kernels.cpp: makes a kernel for each pattern and form of a litmus test.
#include "support/litmus_kernels.hpp"

namespace attacca::test {

namespace {

template <bench::litmus::Pattern kPattern, bench::litmus::Form kForm>
struct Litmus {
  static constexpr const char* name = "litmus";
  using Args = bench::litmus::Args;
  static Cost cost(const Args& a) { return {.flops = 0, .bytes = 16.0 * a.instances * a.rounds}; }
  static void host(const Grid&, const Args& a) {
    bench::litmus::play_on_threads<kPattern, kForm>(a);
  }
#if defined(__CUDACC__)
  __device__ static void cuda(Thread&, const Args& a) {
    bench::litmus::play_in_grid<kPattern, kForm>(a);
  }
#endif
};

}  // namespace

Kernel<bench::litmus::Args> litmus_kernel(bench::litmus::Pattern pattern,
                                          bench::litmus::Form form) {
  return bench::litmus::with(pattern, form, [](auto known_pattern, auto known_form) {
    return make_kernel<Litmus<known_pattern.value, known_form.value>>();
  });
}

}  // namespace attacca::test
