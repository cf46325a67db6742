// copy.hpp: kernels that add up an array, through shared memory in different ways or without it.
// Only for files inside `#if ATTACCA_WITH_CUDA`.
#pragma once

#include <cuda_runtime_api.h>
#include <attacca/target.hpp>

#include <cstdint>
#include <vector>

namespace bench::copying {

inline constexpr unsigned kThreads = 256;  // of a block

enum class Way {
  registers,        // load, store to shared memory, wait for the block, use
  registers_ahead,  // the same, with the next chunk loaded before this one is used
  asynchronous,     // StagedCopy
  bulk,             // BulkCopy
};

/// A kernel that streams whole chunks through shared memory, and adds the digest of every word to
/// `sum`.
struct Variant {
  Way way;
  unsigned stages;
  unsigned chunk_bytes;
  unsigned shared_bytes;
  const void* kernel;  // const unsigned* words, std::uint64_t chunks, unsigned* sum
};
const std::vector<Variant>& variants();

/// The least work that still needs every word.
ATTACCA_HD inline unsigned digest(unsigned word) { return (word ^ (word >> 15)) * 739'982'445u; }
ATTACCA_HD inline unsigned word_at(std::uint64_t place) {
  return static_cast<unsigned>(place) * 2'654'435'761u + 12'345u;
}

/// Sets words[i] to word_at(i). REQUIRES: count is a multiple of 4.
cudaError_t launch_fill(unsigned* words, std::uint64_t count, cudaStream_t stream);
/// The floor: adds up without shared memory, 16 bytes a thread at a time.
cudaError_t launch_direct(const unsigned* words, std::uint64_t count, unsigned* sum,
                          unsigned blocks, cudaStream_t stream);
cudaError_t launch(const Variant& variant, const unsigned* words, std::uint64_t count,
                   unsigned* sum, unsigned blocks, cudaStream_t stream);
/// Lets the kernel use its shared memory, and returns how many of its blocks fit an SM.
cudaError_t prepare(const Variant& variant, int* blocks_per_sm);

}  // namespace bench::copying
