// random_fill.hpp: fills device memory with random numbers that look normally distributed, for the
// weights and KV pages of benchmarks: faster than reading a file. Number i of a seed is the same on
// every device, whatever the grid.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

#include "kernels/matrix.hpp"
#include "kernels/sample/sampling.hpp"

namespace attacca::kernels {

struct RandomFillArgs {
  void* to;         // [count] of `type`
  TensorType type;  // f32, f16 or bf16
  std::uint64_t count;
  std::uint64_t seed;
  float deviation;  // standard deviation; the mean is 0
};

/// Number `index` of a seed: a sum of four uniform numbers, never beyond 3.47 deviations. Each
/// product rounds once, so host and device agree.
ATTACCA_HD inline float random_number(std::uint64_t seed, std::uint64_t index, float deviation) {
  constexpr std::int32_t kMean = 4 * 0xffff / 2;
  constexpr float kStep = 2.64290795e-5f;  // sqrt(3) / 2^16: 1 over the deviation of the sum
  const std::uint64_t bits = mixed(mixed(seed) + (index + 1) * 0x9e3779b97f4a7c15u);
  std::int32_t sum = 0;
  for (unsigned part = 0; part < 4; ++part)
    sum += static_cast<std::int32_t>(bits >> (16 * part) & 0xffffu);
  return static_cast<float>(sum - kMean) * (kStep * deviation);
}

const Kernel<RandomFillArgs>& random_fill();
/// Throws BadArgument for a type other than f32, f16 and bf16.
Grid grid_of(const RandomFillArgs& args, bool is_cuda);

}  // namespace attacca::kernels
