// streamed_linear.hpp: y = W x for few rows of x (a GEMV or a thin GEMM). On CUDA it runs at the
// speed of memory: the weights stream through the tensor cores once for every 16 rows of x, and the
// norm before the product and the epilogue after it are fused in. A row of y is the same bits
// whatever other rows are in the batch. The host body is a plain reference. Many rows are left to
// sm90_tiled_linear.hpp.
//
// x is bf16, which is precise enough for bf16, f16 and e4m3 weights. For quantized weights x is the
// sum of two bf16 numbers, x and its rounding error; CUDA rounds it to 16-bit integers with one
// scale for each 32 columns. Quantized and f16 weights stream once for every 8 rows.
#pragma once

#include <attacca/kernel.hpp>
#include <functional>

#include "kernels/activations.hpp"
#include "kernels/matrix.hpp"
#include "kernels/residual.hpp"

namespace attacca::kernels {

/// The epilogue: how the products are stored.
///  store  y[row, output] = product + bias
///  add    residual.values += product; the other fields of the residual follow
///  gate   gated[row, i] = silu(w x)[i] * (up x)[i] in bf16, its rounding error in gated_rest
enum class Epilogue : std::uint32_t { store, add, gate };

/// Weights that the next kernels will read. This kernel prefetches them into L2 as it ends.
struct Upcoming {
  const void* data = nullptr;
  std::uint64_t bytes = 0;  // of all blocks together
  std::uint32_t most = 0;   // bytes that each block prefetches; 0: none
};

struct StreamedLinearArgs {
  static constexpr unsigned kMaxNext = 2;
  const std::uint16_t* x;       // [.., columns] bf16
  const std::uint16_t* x_rest;  // as x: its rounding error, for quantized weights; or null
  const std::int32_t* gather;   // row of x for each row of y; null: the same row
  const float* squares;         // of x before scaling, as in Residual; null: no norm
  float epsilon;                // of the norm
  RowCount rows;
  bool in_order;  // of bf16 weights: in the order that tiled_linear shares, a little slower
  Matrix w;       // see can_stream_weights; 16-byte aligned
  Epilogue epilogue;
  const float* bias;          // store: [w.rows], or null
  float* y;                   // store: [capacity, w.rows]
  Residual residual;          // add: as many columns as w has rows
  const float* next_norm;     // add: [residual.columns]
  Matrix up;                  // gate: as w, of its type
  std::uint16_t* gated;       // gate: [capacity, w.rows]
  std::uint16_t* gated_rest;  // as gated, or null
  Upcoming next[kMaxNext];
};

/// Whether `up` lies before `gate` in memory. A tensor map of both starts at the lower one.
inline bool gate_is_second(const Matrix& gate, const Matrix& up) {
  return std::less<>{}(up.data, gate.data);
}

/// Whether the kernels support these weights: bf16, f16, e4m3, Q8_0, Q4_0 or Q4_1, with 16n rows
/// and 32n columns.
bool can_stream_weights(const Matrix& w);

const Kernel<StreamedLinearArgs>& streamed_linear(const StreamedLinearArgs& args);

/// Which linear kernel may share an SM with this one. Two blocks of one kernel never do: left to
/// choose, a GPU gives two of them to some SMs and none to others.
///  next  the linear kernel before or after this one, in a chain where every other kernel adds; the
///        next one's first weights arrive while this one runs
///  none  no linear kernel; the next one starts where this one has ended
enum class CoResident { next, none };

/// The grid on a device with `processors` SMs: one block for each.
Grid streamed_grid(const StreamedLinearArgs& args, unsigned processors,
                   CoResident co_resident = CoResident::next);

/// One block's tiles, on the host.
void streamed_linear_on_host(Thread& t, const StreamedLinearArgs& args);

}  // namespace attacca::kernels
