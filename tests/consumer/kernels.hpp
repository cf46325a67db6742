// Two kernels of a consumer project.
#pragma once

#include <attacca/attacca.hpp>
#include <cstdint>

namespace consumer {

struct DoubleArgs {
  std::uint32_t* values;
  std::uint32_t count;
};
/// Doubles each value.
extern const attacca::Kernel<DoubleArgs> double_each;

struct SpawnArgs {
  std::uint32_t* values;
  std::uint32_t kernels;
};
/// Spawns a kernel for each value; it adds one to the value.
extern const attacca::Kernel<SpawnArgs> spawn_additions;

}  // namespace consumer
