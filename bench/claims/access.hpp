// access.hpp: kernels that copy memory in good and bad patterns, and read shared memory with and
// without bank conflicts; see access.cpp. Only for files inside `#if ATTACCA_WITH_CUDA`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bench::accessing {

inline constexpr unsigned kThreads = 256;         // of a block
inline constexpr unsigned kPoison = 0xA5A5A5A5u;  // outputs hold it before they are written
inline constexpr unsigned kTile = 32;             // side of a transposing block's tile

/// Sets words[i] to a value that depends on i, never to the poison.
cudaError_t launch_fill(unsigned* words, std::uint64_t count, cudaStream_t stream);

/// Two arrays of `words` words each.
struct Arrays {
  const unsigned* in;
  unsigned* out;
  std::uint64_t words;
};

/// Thread i copies word offset + i * stride, if there is one.
struct Pattern {
  unsigned stride;
  unsigned offset;
};
/// The number of threads that have a word to copy.
constexpr std::uint64_t accesses(std::uint64_t words, Pattern pattern) {
  return words <= pattern.offset ? 0
                                 : (words - pattern.offset + pattern.stride - 1) / pattern.stride;
}
cudaError_t launch_strided(const Arrays& arrays, Pattern pattern, cudaStream_t stream);
/// Counts the words of `out` that are wrong: neither the copy nor, where none is made, the poison.
cudaError_t launch_check_strided(const Arrays& arrays, Pattern pattern, unsigned* wrong,
                                 cudaStream_t stream);

/// Copies everything, 1, 2, 4, 8 or 16 bytes to an access, and one or four accesses to a thread.
/// REQUIRES: words is a multiple of 16 * kThreads.
cudaError_t launch_wide(const Arrays& arrays, unsigned bytes, bool is_four_each,
                        cudaStream_t stream);

/// out[c, r] = in[r, c] of a square matrix with `side` rows, a multiple of kTile.
enum class Transpose { naive, tile, padded_tile };
cudaError_t launch_transpose(const Arrays& arrays, unsigned side, Transpose how,
                             cudaStream_t stream);
cudaError_t launch_check_transpose(const Arrays& arrays, unsigned side, unsigned* wrong,
                                   cudaStream_t stream);

/// Every lane adds up kReads words of shared memory from lane * stride on, `rounds` times over.
inline constexpr unsigned kReads = 16;
inline constexpr unsigned kSharedWords = 2048;
constexpr unsigned shared_word(unsigned place) { return place * 7 + 1; }
cudaError_t launch_banks(unsigned* out, unsigned stride, unsigned rounds, unsigned blocks,
                         cudaStream_t stream);

}  // namespace bench::accessing
