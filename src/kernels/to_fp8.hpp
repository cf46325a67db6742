// to_fp8.hpp: weights in floats of 8 bits: e4m3, and for each row a scale that makes its largest
// element 448, the largest there is.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

#include "kernels/matrix.hpp"

namespace attacca::kernels {

struct ToFp8Args {
  Matrix from;       // of any type
  std::uint8_t* to;  // [from.rows, from.columns]
  float* scales;     // [from.rows]
};

const Kernel<ToFp8Args>& to_fp8();
Grid grid_of(const ToFp8Args& args, bool is_cuda);

}  // namespace attacca::kernels
