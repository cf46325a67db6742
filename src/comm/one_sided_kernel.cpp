// one_sided_kernel.cpp: the bodies, at system scope, since other processes and GPUs write to the
// same words. Compiled by nvcc in a CUDA build.
#include "comm/one_sided_kernel.hpp"

#include <attacca/device/atomic.hpp>
#include <cstring>

namespace attacca::comm {

namespace {

using Word = device::AtomicRef<std::uint64_t, device::Scope::system>;

struct Put {
  static constexpr const char* name = "put";
  using Args = PutArgs;
  static Cost cost(const Args& a) { return {.bytes = 2.0 * static_cast<double>(a.bytes)}; }
  static void host(const Grid&, const Args& a) {
    if (a.bytes > 0) std::memcpy(a.to, a.from, a.bytes);
    Word(*a.signal).store(a.value, device::release);
  }
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const auto address = reinterpret_cast<std::uintptr_t>(a.from) |  //
                         reinterpret_cast<std::uintptr_t>(a.to);
    const std::uint64_t wide = address % sizeof(uint4) == 0 ? a.bytes / sizeof(uint4) : 0;
    const auto* from = reinterpret_cast<const uint4*>(a.from);
    auto* to = reinterpret_cast<uint4*>(a.to);
#pragma unroll 4
    for (std::uint64_t at = t.thread.x; at < wide; at += t.threads.x) to[at] = from[at];
    for (std::uint64_t at = wide * sizeof(uint4) + t.thread.x; at < a.bytes; at += t.threads.x)
      a.to[at] = a.from[at];
    __syncthreads();
    // The barrier orders the writes of all threads before this one's release.
    if (t.thread.x == 0) Word(*a.signal).store(a.value, device::release);
#endif
  }
};

constexpr const char* kRankNames[] = {"rank 0", "rank 1", "rank 2", "rank 3",
                                      "rank 4", "rank 5", "rank 6", "rank 7"};
static_assert(std::size(kRankNames) == device::RankBarrier::kMostRanks);

struct Wait {
  static constexpr const char* name = "wait";
  static constexpr auto& waits_for = kRankNames;
  using Args = WaitArgs;
  static Cost cost(const Args&) { return {.bytes = 8}; }
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
    if (!t.is_first()) return;
    const Word signal(*a.signal);
    const std::uint64_t start = device::NativeMemory::now();
    device::NativeMemory::Backoff backoff;
    // acquire pairs with the release in Put: once the value is seen, so is the data.
    for (std::uint64_t seen; (seen = signal.load(device::acquire)) < a.value; backoff.pause()) {
      const std::uint64_t waited = device::NativeMemory::now() - start;
      if (waited > a.nanoseconds) return t.give_up(a.from, a.value, seen, waited);
    }
  }
};

struct FetchAdd {
  static constexpr const char* name = "fetch_add";
  using Args = FetchAddArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 24}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) *a.before = Word(*a.counter).fetch_add(a.value, device::acq_rel);
  }
};

struct Meet {
  static constexpr const char* name = "meet";
  static constexpr auto& waits_for = kRankNames;
  using Args = MeetArgs;
  static Cost cost(const Args& a) { return {.bytes = 8.0 * a.barrier.ranks}; }
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
    if (!t.is_first()) return;
    const std::uint32_t turn = ++*a.met;
    const int missing = a.barrier.meet(turn, a.nanoseconds);
    if (missing != a.barrier.ranks)
      t.give_up(static_cast<unsigned>(missing), turn, turn - 1, a.nanoseconds);
  }
};

}  // namespace

const Kernel<PutArgs>& put_kernel() {
  static const Kernel<PutArgs> kernel = make_kernel<Put>();
  return kernel;
}
Grid put_grid(std::size_t bytes, bool is_cuda) {
  if (!is_cuda || bytes == 0) return Grid{};
  const std::size_t warps = (bytes / 16 + 31) / 32;
  return Grid{{1}, {warps > 32 ? 1024u : warps < 1 ? 32u : 32 * static_cast<unsigned>(warps)}};
}
const Kernel<WaitArgs>& wait_kernel() {
  static const Kernel<WaitArgs> kernel = make_kernel<Wait>();
  return kernel;
}
const Kernel<FetchAddArgs>& fetch_add_kernel() {
  static const Kernel<FetchAddArgs> kernel = make_kernel<FetchAdd>();
  return kernel;
}
const Kernel<MeetArgs>& meet_kernel() {
  static const Kernel<MeetArgs> kernel = make_kernel<Meet>();
  return kernel;
}

}  // namespace attacca::comm
