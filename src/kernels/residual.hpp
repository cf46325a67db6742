// residual.hpp: the residual stream of CUDA's streamed steps. Who adds to it leaves beside it what
// the next product reads: the sum, scaled for the norm that comes next and rounded, and the squares
// that the norm divides by. So a norm is no kernel of its own: the product that follows multiplies
// its results by one factor for each row. For quantized weights what rounding left is kept as well.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca::kernels {

struct Residual {
  /// Columns whose squares are summed up together.
  static constexpr std::uint32_t kPart = 16;

  float* values = nullptr;          // [capacity, columns]
  std::uint16_t* scaled = nullptr;  // [capacity, columns] bf16: values * the next norm's weight
  float* squares = nullptr;         // [capacity, columns / kPart]: sums of values squared
  std::uint32_t columns = 0;        // a multiple of kPart
  std::uint16_t* rest = nullptr;    // as scaled: bf16 of what rounding it left; null: not wanted

  ATTACCA_HD std::uint32_t parts() const { return columns / kPart; }
};

}  // namespace attacca::kernels
