// probe_kernel.cpp: the bodies of the probe kernels. Compiled by nvcc in a CUDA build.
#include <cstring>

#include "instruments/bandwidth.hpp"
#include "instruments/multiply_add.hpp"
#include "roofline/probe_kernels.hpp"

namespace attacca::roofline {

namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kBlocksPerProcessor = 4;  // as many as fit
constexpr unsigned kAtOnce = 8;              // loads in flight per thread
constexpr unsigned kChains = 8;              // of multiply-adds per thread; four hide the latency
constexpr std::uint32_t kUnlikely = 0x5bd1e995;

/// The quads of a block on the host, where blocks take one stretch each.
struct Stretch {
  std::uint64_t first, count;
};
inline Stretch stretch_of(const Thread& t, std::uint64_t count) {
  const std::uint64_t first = count * t.block.x / t.blocks.x;
  return {first, count * (t.block.x + 1) / t.blocks.x - first};
}

struct ReadMemory {
  static constexpr const char* name = "read_memory";
  using Args = ReadArgs;

  static Cost cost(const Args& a) {
    return {.bytes = static_cast<double>(a.count) * a.passes * sizeof(Quad)};
  }
  static Accesses accesses(const Args& a) { return Accesses().reads(a.from, a.count); }

  static void host_block(Thread& t, const Args& a) {
    const Stretch mine = stretch_of(t, a.count);
    for (unsigned pass = 0; pass < a.passes; ++pass)
      if (instruments::sum_words(a.from + mine.first, mine.count * sizeof(Quad)) == kUnlikely)
        *a.seen = kUnlikely;
  }

  /// Blocks take turns at tiles of kAtOnce quads per thread; neighbouring threads read neighbouring
  /// quads.
  ATTACCA_DEVICE static void cuda(Thread& t, const Args& a) {
    const std::uint64_t tile = std::uint64_t{t.threads.x} * kAtOnce;
    std::uint32_t all = 0;
    for (unsigned pass = 0; pass < a.passes; ++pass) {
      const std::uint64_t block = (t.block.x + pass) % t.blocks.x;
      for (std::uint64_t first = block * tile; first < a.count; first += t.blocks.x * tile) {
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
      all += pass;  // or an even number of passes would be none
    }
    if (all == kUnlikely) *a.seen = all;
  }
};

struct CopyMemory {
  static constexpr const char* name = "copy_memory";
  using Args = CopyArgs;

  static Cost cost(const Args& a) {
    return {.bytes = 2.0 * static_cast<double>(a.count) * sizeof(Quad)};
  }
  static Accesses accesses(const Args& a) {
    return Accesses().reads(a.from, a.count).writes(a.to, a.count);
  }

  static void host_block(Thread& t, const Args& a) {
    const Stretch mine = stretch_of(t, a.count);
    std::memcpy(a.to + mine.first, a.from + mine.first, mine.count * sizeof(Quad));
  }

  ATTACCA_DEVICE static void cuda(Thread& t, const Args& a) {
    const std::uint64_t tile = std::uint64_t{t.threads.x} * kAtOnce;
    for (std::uint64_t first = t.block.x * tile; first < a.count; first += t.blocks.x * tile) {
      if (first + tile <= a.count) {
        Quad held[kAtOnce];
        for (unsigned at = 0; at < kAtOnce; ++at)
          held[at] = a.from[first + at * t.threads.x + t.thread.x];
        for (unsigned at = 0; at < kAtOnce; ++at)
          a.to[first + at * t.threads.x + t.thread.x] = held[at];
      } else {
        for (std::uint64_t at = first + t.thread.x; at < a.count; at += t.threads.x)
          a.to[at] = a.from[at];
      }
    }
  }
};

struct MultiplyAdd {
  static constexpr const char* name = "multiply_add";
  using Args = MultiplyAddArgs;

  static Cost cost(const Args& a) { return {.flops = a.flops}; }
  static Accesses accesses(const Args& a) { return Accesses().writes(a.out, 1); }

  static void host_block(Thread&, const Args& a) {
    if (instruments::multiply_add(a.rounds) < 0) *a.out = 1;
  }

  ATTACCA_DEVICE static void cuda(Thread& t, const Args& a) {
    const float factor = 1e-3f, term = 1e-4f * static_cast<float>(t.thread.x + 1);
    float sums[kChains];
    for (float& sum : sums) sum = 1;
    for (unsigned round = 0; round < a.rounds; ++round)
      for (float& sum : sums) sum = sum * factor + term;
    float all = 0;
    for (const float sum : sums) all += sum;
    if (all < 0) *a.out = all;
  }
};

struct CopyOne {
  static constexpr const char* name = "copy_one";
  static constexpr bool waits = true;
  using Args = TinyArgs;

  static Cost cost(const Args&) { return {.bytes = 2.0 * sizeof(Quad)}; }
  static Accesses accesses(const Args& a) { return Accesses().reads(a.from, 1).writes(a.to, 1); }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    t.wait_for_producers();
    if (t.is_first()) *a.to = *a.from;
  }
};

}  // namespace

const Kernel<ReadArgs>& read_memory() {
  static const Kernel<ReadArgs> kernel = make_kernel<ReadMemory>();
  return kernel;
}
const Kernel<CopyArgs>& copy_memory() {
  static const Kernel<CopyArgs> kernel = make_kernel<CopyMemory>();
  return kernel;
}
const Kernel<MultiplyAddArgs>& multiply_add() {
  static const Kernel<MultiplyAddArgs> kernel = make_kernel<MultiplyAdd>();
  return kernel;
}
const Kernel<TinyArgs>& copy_one() {
  static const Kernel<TinyArgs> kernel = make_kernel<CopyOne>();
  return kernel;
}

const Kernel<EndPass::Args>& end_pass() {
  static const Kernel<EndPass::Args> kernel = make_kernel<EndPass>();
  return kernel;
}
const PersistentProgram& tiny_program() {
  static const PersistentProgram program = make_persistent<CopyOne, EndPass>();
  return program;
}

double multiply_add_flops(const Grid& grid, unsigned rounds, bool is_cuda) {
  const auto blocks = static_cast<double>(grid.blocks.count());
  if (!is_cuda) return 2 * blocks * instruments::multiply_adds(rounds);
  return 2 * blocks * static_cast<double>(grid.threads.count()) * kChains * rounds;
}

Grid probe_grid(unsigned processors, bool is_cuda) {
  if (!is_cuda) return {Dim3{processors}, Dim3{1}};
  return {Dim3{processors * kBlocksPerProcessor}, Dim3{kThreads}};
}

}  // namespace attacca::roofline
