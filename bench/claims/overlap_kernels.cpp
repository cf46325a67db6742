// overlap_kernels.cpp: the kernel of overlap.hpp. Compiled by nvcc in a CUDA build.
#include "claims/overlap.hpp"

namespace bench::overlap {

namespace {

struct Scramble {
  static constexpr const char* name = "scramble";
  using Args = ScrambleArgs;
  static attacca::Cost cost(const Args& a) { return {.bytes = 8.0 * static_cast<double>(a.count)}; }
  ATTACCA_HD static void body(attacca::Thread& t, const Args& a) {
    if (t.index() < a.count) a.out[t.index()] = scrambled(a.in[t.index()], a.turns);
  }
};

}  // namespace

const attacca::Kernel<ScrambleArgs> scramble = attacca::make_kernel<Scramble>();

}  // namespace bench::overlap
