// memory_kernels.hpp: kernels for the tests of memory helpers: L2 hints and discarding.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

/// Four words that are loaded and stored at once.
struct alignas(16) Quad {
  std::uint32_t word[4];
  friend bool operator==(const Quad&, const Quad&) = default;
};

/// to[i] = from[i], with the L2 hints, in loads and stores of `width` bytes: 4, 8 or 16.
struct HintedCopyArgs {
  const Quad* from;
  Quad* to;
  std::uint64_t count;
  unsigned width;
};
extern const Kernel<HintedCopyArgs> hinted_copy;

/// Discards `bytes` bytes at `at`, from the grid's first thread.
struct DiscardArgs {
  std::uint32_t* at;
  std::uint64_t bytes;
};
extern const Kernel<DiscardArgs> discard;

}  // namespace attacca::test
