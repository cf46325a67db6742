// litmus_kernels.hpp: the litmus tests of bench/claims/litmus.hpp as kernels: on the host one of
// them is two threads, whatever its grid.
#pragma once

#include <attacca/kernel.hpp>

#include "bench/claims/litmus.hpp"

namespace attacca::test {

/// Wants a grid of litmus::kBlocks of litmus::kThreads on CUDA.
Kernel<bench::litmus::Args> litmus_kernel(bench::litmus::Pattern pattern, bench::litmus::Form form);

}  // namespace attacca::test
