// simd.hpp: include before any Highway header, to say what we build for: on x86-64 at least SSE4,
// and vectors of a known size only, since tiles are arrays of them.
#pragma once

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
