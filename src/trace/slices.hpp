// slices.hpp: what all of src/trace agrees on: the order of slices, and the mark of a part.
#pragma once

#include <attacca/trace.hpp>

namespace attacca::trace {

/// The argument of a slice that is only a part of a kernel, computed by one more thread.
inline constexpr const char* kPart = "part";

/// The process of tracks that have the calls of a program to a device.
inline constexpr const char* kHostCalls = "host calls";

/// That a thread, or a source of slices, keeps: 300 MB.
inline constexpr std::size_t kMostSlices = 4'000'000;

/// Throws BadArgument, with the slice, for a track that is not there and for times more than
/// 4e18 ns from zero, whose differences are no longer numbers of 64 bits.
void check_slices(const Trace& trace);

/// By begin; of two that begin together, the longer one is around the other.
inline bool is_earlier(const TraceSlice& a, const TraceSlice& b) {
  return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
}

}  // namespace attacca::trace
