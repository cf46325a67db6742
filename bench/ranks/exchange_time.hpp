// exchange_time.hpp: the time of an all-reduce in a graph, as a model over ranks has many.
#pragma once

#include <attacca/ranks.hpp>
#include <cstddef>
#include <vector>

namespace bench {

/// Samples of the microseconds of one all-reduce of `count` floats by two threads that share a
/// device, in a graph of 32, as rank 0 sees it.
std::vector<double> all_reduce_us(const attacca::Device& device, attacca::Transport transport,
                                  std::size_t count, int launches, int samples);

}  // namespace bench
