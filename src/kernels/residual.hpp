// residual.hpp: the residual stream of CUDA's streamed steps, with the next RMS norm fused in. The
// kernel that adds to it also stores what the next linear kernel reads: the values scaled by the
// next norm's weight and rounded, and their squares. So a norm needs no kernel of its own: the
// linear kernel multiplies its results by one factor for each row. For quantized weights the
// rounding errors are kept as well.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca::kernels {

struct Residual {
  /// Columns whose squares are summed together.
  static constexpr std::uint32_t kPart = 16;

  float* values = nullptr;          // [capacity, columns]
  std::uint16_t* scaled = nullptr;  // [capacity, columns] bf16: values * the next norm's weight
  float* squares = nullptr;         // [capacity, columns / kPart]: sums of values squared
  std::uint32_t columns = 0;        // a multiple of kPart
  std::uint16_t* rest = nullptr;    // as scaled: its rounding error in bf16; or null

  ATTACCA_HD std::uint32_t parts() const { return columns / kPart; }
};

}  // namespace attacca::kernels
