// fetch_add_kernel.hpp: adds to a counter of another rank.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::comm {

struct FetchAddArgs {
  std::uint64_t* counter;  // may be another process's, in memory that this device can address
  std::uint64_t value;
  std::uint64_t* before;
};

/// REQUIRES: one thread.
const Kernel<FetchAddArgs>& fetch_add_kernel();

}  // namespace attacca::comm
