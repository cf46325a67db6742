// litmus_kernels.hpp: the litmus tests of bench/claims/litmus.hpp as kernels. On the host each is
// two threads, whatever its grid.
#pragma once

#include <attacca/kernel.hpp>

#include "bench/claims/litmus.hpp"

namespace attacca::test {

/// REQUIRES: on CUDA, a grid of litmus::kBlocks blocks of litmus::kThreads threads.
Kernel<bench::litmus::Args> litmus_kernel(bench::litmus::Pattern pattern, bench::litmus::Form form);

}  // namespace attacca::test
