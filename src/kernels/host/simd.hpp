// simd.hpp: the Highway targets that we build for; include it before any Highway header. On x86-64
// they start at SSE4. All have vectors of a known size, since tiles are arrays of vectors.
#pragma once

#if defined(__x86_64__) && !defined(HWY_BASELINE_TARGETS)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
