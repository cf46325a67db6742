// read_kernels.cpp: the kernel of read_kernels.hpp, with many loads in flight.
#include "llm/read_kernels.hpp"

namespace bench {
namespace {

using attacca::Cost;
using attacca::Thread;

constexpr unsigned kThreads = 512;
constexpr unsigned kBlocksPerProcessor = 4;  // as many as fit
constexpr unsigned kAtOnce = 8;              // loads in flight per thread

struct ReadMemory {
  static constexpr const char* name = "read_memory";
  using Args = ReadArgs;

  static Cost cost(const Args& a) { return {.bytes = static_cast<double>(a.count) * sizeof(Quad)}; }

  /// Blocks take turns at tiles of kAtOnce quads per thread; neighbouring threads read neighbouring
  /// quads.
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const std::uint64_t tile = std::uint64_t{t.threads.x} * kAtOnce;
    std::uint32_t all = 0;
    for (std::uint64_t first = t.block.x * tile; first < a.count; first += t.blocks.x * tile) {
      if (first + tile <= a.count) {
        Quad held[kAtOnce];
        for (unsigned at = 0; at < kAtOnce; ++at)
          held[at] = a.from[first + at * t.threads.x + t.thread.x];
        for (unsigned at = 0; at < kAtOnce; ++at)
          all ^= held[at].x ^ held[at].y ^ held[at].z ^ held[at].w;
      } else {
        for (std::uint64_t at = first + t.thread.x; at < a.count; at += t.threads.x)
          all ^= a.from[at].x ^ a.from[at].y ^ a.from[at].z ^ a.from[at].w;
      }
    }
    if (all == kUnlikely) *a.seen = all;
  }

 private:
  static constexpr std::uint32_t kUnlikely = 0x5bd1e995;
};

}  // namespace

const attacca::Kernel<ReadArgs>& read_memory() {
  static const attacca::Kernel<ReadArgs> kernel = attacca::make_kernel<ReadMemory>();
  return kernel;
}

attacca::Grid read_grid(unsigned processors) {
  return {attacca::Dim3{processors * kBlocksPerProcessor}, attacca::Dim3{kThreads}};
}

}  // namespace bench
