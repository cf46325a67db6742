// probe_kernels.hpp: kernels that do one thing only, so that it is known where they sit under the
// roofs: read, copy, multiply-add, nothing. Their times are a GPU's roofs; docs/roofline.md shows
// them as `attacca roofline probes`.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/persistent.hpp>
#include <attacca/roofline.hpp>
#include <cstdint>

namespace attacca::roofline {

/// 16 bytes that one load fetches.
struct alignas(16) Quad {
  std::uint32_t x, y, z, w;
};

struct ReadArgs {
  const Quad* from;
  std::uint64_t count;  // number of quads
  std::uint32_t* seen;  // [1]; written if the words cancel out, so the compiler keeps the reads
  unsigned passes = 1;  // over all of them, each with other blocks, so that no L1 serves it
};
const Kernel<ReadArgs>& read_memory();

struct CopyArgs {
  const Quad* from;
  Quad* to;
  std::uint64_t count;  // number of quads
};
const Kernel<CopyArgs>& copy_memory();

struct MultiplyAddArgs {
  float* out;  // [1]; written if the result is a number it cannot be
  unsigned rounds;
  double flops;  // of the whole grid: `multiply_add_flops`
};
const Kernel<MultiplyAddArgs>& multiply_add();
double multiply_add_flops(const Grid& grid, unsigned rounds, bool is_cuda);

struct TinyArgs {
  const Quad* from;
  Quad* to;
};
/// Copies one quad. Waits for its producers, so it may start behind a programmatic edge.
const Kernel<TinyArgs>& copy_one();

inline constexpr Grid kTinyGrid{{1}, {32}};

/// The kernel of EndPass, which ends a loop behind its first pass.
const Kernel<EndPass::Args>& end_pass();
/// copy_one and end_pass in one persistent kernel.
const PersistentProgram& tiny_program();

/// Blocks that fill a device with so many processors.
Grid probe_grid(unsigned processors, bool is_cuda);

}  // namespace attacca::roofline
