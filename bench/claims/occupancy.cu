// occupancy.cu: the kernels of occupancy.hpp: one bound by the latency of its arithmetic, one by
// memory.
#include "claims/occupancy.hpp"

#include <cuda_runtime.h>

namespace bench::occupancy {

using attacca::Cost;
using attacca::Thread;

namespace {

struct Scramble {
  static constexpr const char* name = "scramble";
  using Args = ScrambleArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const auto index = static_cast<std::uint32_t>(t.index());
    a.out[index] = scrambled(index + 1, a.turns);
  }
};

template <unsigned kInFlight>
struct Read {
  static constexpr const char* name = kInFlight == 1 ? "read 1 at a time" : "read 4 at a time";
  using Args = ReadArgs;
  static Cost cost(const Args& a) { return {.bytes = 4.0 * static_cast<double>(a.count)}; }
  __device__ static void cuda(Thread& t, const Args& a) {
    const auto* quads = reinterpret_cast<const uint4*>(a.words);
    const std::uint64_t count = a.count / 4;
    std::uint64_t sum = 0;
    // Unrolled by hand: the compiler would have more loads in flight than the name says.
#pragma unroll 1
    for (std::uint64_t at = t.index(); at < count; at += kInFlight * t.stride()) {
      uint4 loaded[kInFlight];
#pragma unroll
      for (unsigned each = 0; each < kInFlight; ++each)
        loaded[each] = __ldcs(quads + at + each * t.stride());
#pragma unroll
      for (unsigned each = 0; each < kInFlight; ++each)
        sum += loaded[each].x + loaded[each].y + loaded[each].z + loaded[each].w;
    }
    a.sums[t.index()] = sum;
  }
  static void host(const attacca::Grid&, const Args&) {}
};

}  // namespace

const attacca::Kernel<ScrambleArgs> scramble = attacca::make_kernel<Scramble>();
const attacca::Kernel<ReadArgs> read_one_at_a_time = attacca::make_kernel<Read<1>>();
const attacca::Kernel<ReadArgs> read_four_at_a_time = attacca::make_kernel<Read<4>>();

}  // namespace bench::occupancy
