// litmus.cu: instantiates the kernels of litmus.hpp for the benchmark `litmus`.
#include "litmus.hpp"

namespace bench::litmus {

namespace {

template <Pattern kPattern, Form kForm>
__global__ void litmus_kernel(const Args args) {
  play_in_grid<kPattern, kForm>(args);
}

}  // namespace

const void* kernel_of(Pattern pattern, Form form) {
  return with(pattern, form, [](auto known_pattern, auto known_form) {
    return reinterpret_cast<const void*>(&litmus_kernel<known_pattern.value, known_form.value>);
  });
}

}  // namespace bench::litmus
