// bandwidth.hpp: how fast the host reads and copies memory, measured: the floor under what must be
// read. roofline/ has the same for a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attacca::instruments {

/// Bytes per second that `threads` threads move together, the best of a few passes. 0 threads: all
/// cores. Each takes about a quarter of a second.

/// Reads from a block too large for the caches.
double read_bandwidth(unsigned threads = 0);
/// Copies such a block; what is read and what is written both count.
double copy_bandwidth(unsigned threads = 0);
/// Each thread reads a block of its own that its core's cache holds.
double cache_bandwidth(unsigned threads = 0);

/// The sum of memory's words, as fast as one thread reads them. A last part of less than 256 bytes
/// is left out.
std::uint64_t sum_words(const void* from, std::size_t bytes);

/// Bytes that a core's own cache holds, as the system says, or a usual size.
std::size_t core_cache_bytes();

}  // namespace attacca::instruments
