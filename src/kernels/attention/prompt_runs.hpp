// prompt_runs.hpp: which rows of a mixed step are left to sm90_prompt_attention.hpp: those of long
// runs. A run is all rows of a slot, which are neighbours.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca::kernels {

/// The fewest rows of a long run.
inline constexpr std::uint32_t kLongRun = 64;

/// Whether a row of `rows` is in a long run. `slots(row)` is the slot of a row. Kernels of
/// attention on a GPU list the runs instead.
template <class Slots>
ATTACCA_HD bool is_in_long_run(std::uint32_t row, std::uint32_t rows, const Slots& slots) {
  constexpr std::uint32_t kFar = kLongRun - 1;
  const std::uint32_t mine = slots(row);
  if (row + kFar < rows && slots(row + kFar) == mine) return true;
  if (row >= kFar && slots(row - kFar) == mine) return true;
  std::uint32_t first = row;
  for (std::uint32_t step = kLongRun / 2; step != 0; step /= 2)
    if (first >= step && slots(first - step) == mine) first -= step;
  return first + kFar < rows && slots(first + kFar) == mine;
}

}  // namespace attacca::kernels
