// bandwidth.hpp: how fast this machine reads memory, measured: the floor under what must be read.
#pragma once

#include <cstddef>

namespace attacca::instruments {

/// Bytes per second that `threads` threads together read from memory, the best of a few passes over
/// a block too large for the caches. 0 threads: all cores. Takes about a quarter of a second.
double read_bandwidth(unsigned threads = 0);

}  // namespace attacca::instruments
