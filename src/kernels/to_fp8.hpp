// to_fp8.hpp: converts weights to e4m3, with a scale for each row that maps its largest element to
// 448, the largest e4m3. It runs once when a model is loaded.
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
