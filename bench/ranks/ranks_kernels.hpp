// ranks_kernels.hpp: the all-reduce of two arrays by hand, as one kernel.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

namespace bench {

/// Adds two arrays and writes the sum over both.
struct AddBothArgs {
  float* a;
  float* b;
  std::uint64_t count;
};
extern const attacca::Kernel<AddBothArgs> add_both;

}  // namespace bench
