// streamed_linear.hpp: y = W x for few rows of x, on CUDA at the speed of memory: the weights
// stream through the tensor cores once for every 16 rows, and what surrounds the product is fused
// in. A row of y is the same bits whatever other rows there are. The host body is a plain
// reference.
//
// x is bf16. That is as much as weights of bf16 or e4m3 deserve; quantized ones are multiplied by
// the sum of two such numbers, x and what rounding it left, and stream once for every 8 rows.
#pragma once

#include <attacca/kernel.hpp>
#include <functional>

#include "kernels/activations.hpp"
#include "kernels/matrix.hpp"
#include "kernels/residual.hpp"

namespace attacca::kernels {

/// What becomes of a product.
///  store  y[row, output] = product + bias
///  add    residual.values += product, and the rest of the residual follows
///  gate   gated[row, i] = silu(w x)[i] * (up x)[i], in bf16 (and gated_rest what that leaves)
enum class Epilogue : std::uint32_t { store, add, gate };

/// Weights that the next kernels will read: L2 fetches them while this one ends.
struct Upcoming {
  const void* data = nullptr;
  std::uint64_t bytes = 0;  // in all
  std::uint32_t most = 0;   // from the start of each block's share; 0: nothing
};

struct StreamedLinearArgs {
  static constexpr unsigned kMaxNext = 2;
  const std::uint16_t* x;       // [.., columns] bf16
  const std::uint16_t* x_rest;  // as x: what rounding left, read for quantized weights; or null
  const std::int32_t* gather;   // [capacity]: which row of x; null: the same
  const float* squares;         // of x before it was scaled, as in Residual; null: no norm
  float epsilon;                // of the norm
  RowCount rows;
  Matrix w;  // see can_stream_weights; at a multiple of 16 bytes
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

/// Whether a gate's partner lies before it in memory. Maps of both begin with the first one.
inline bool gate_is_second(const Matrix& gate, const Matrix& up) {
  return std::less<>{}(up.data, gate.data);
}

/// Whether weights can be multiplied so: bf16, e4m3, Q8_0, Q4_0 or Q4_1, 16n rows and 32n columns.
bool can_stream_weights(const Matrix& w);

/// The kernel for these arguments.
const Kernel<StreamedLinearArgs>& streamed_linear(const StreamedLinearArgs& args);

/// Which product may have a block on an SM beside one of this one's. Never this one itself: left to
/// choose, a GPU gives two of its blocks to some SMs and none to others.
///  next  the one before or after it in a chain in which every other product adds: the next one's
///        first weights come while this one runs
///  none  no product: the next one starts where this one has ended
enum class CoResident { next, none };

/// The grid on a device with so many SMs: a block for each.
Grid streamed_grid(const StreamedLinearArgs& args, unsigned processors,
                   CoResident co_resident = CoResident::next);

/// A block's part of it on the host.
void streamed_linear_on_host(Thread& t, const StreamedLinearArgs& args);

}  // namespace attacca::kernels
