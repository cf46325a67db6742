// A kernel file of a consumer project. attacca_kernels compiles it with nvcc if attacca has CUDA.
#include "kernels.hpp"

namespace consumer {

namespace {

struct DoubleEach {
  static constexpr const char* name = "double_each";
  using Args = DoubleArgs;
  static attacca::Cost cost(const Args& a) { return {1.0 * a.count, 8.0 * a.count}; }
  ATTACCA_HD static void body(attacca::Thread& t, const Args& a) {
    if (t.index() < a.count) a.values[t.index()] *= 2;
  }
};

}  // namespace

const attacca::Kernel<DoubleArgs> double_each = attacca::make_kernel<DoubleEach>();

}  // namespace consumer
