// queue_limits.hpp: the parts of the benchmark `queue` that measure the limits of a counter and of
// a queue. Only for files inside `#if ATTACCA_WITH_CUDA`.
#pragma once

#include "harness.hpp"
#include "raw.hpp"

namespace bench::claims {

/// The example of the tutorials.
void measure_modulo(Run& run, Gpu& gpu);
/// Claims without work: the limit of the hot word, against items of `turns` turns that are done at
/// `items_a_microsecond`.
void measure_claims(Run& run, Gpu& gpu, std::uint32_t turns, double items_a_microsecond);
/// Small items that warps take one at a time, from one counter and through a second level in shared
/// memory.
void measure_levels(Run& run, Gpu& gpu);
/// Items through a WorkQueue.
void measure_passing(Run& run, Gpu& gpu);

}  // namespace bench::claims
