// process_kernels.cpp: see process_kernels.hpp. nvcc compiles it in a CUDA build.
#include "ranks/process_kernels.hpp"

#include <attacca/device/atomic.hpp>

namespace bench {

namespace {

using namespace attacca;
using device::Scope;
constexpr std::uint64_t kPatience = 10'000'000'000;

struct PutByHand {
  static constexpr const char* name = "put_by_hand";
  using Args = PutByHandArgs;
  static Cost cost(const Args& a) { return {.bytes = 8.0 * static_cast<double>(a.count)}; }
  static void host(const Grid&, const Args& a) {
    for (std::uint64_t at = 0; at < a.count; ++at) a.to[at] = a.from[at];
    device::AtomicRef<std::uint64_t, Scope::system>(*a.signal).store(a.value, device::release);
  }
  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const auto* from = reinterpret_cast<const float4*>(a.from);
    auto* to = reinterpret_cast<float4*>(a.to);
    for (std::uint64_t at = t.index(); at < a.count / 4; at += t.stride()) to[at] = from[at];
    __syncthreads();
    if (t.thread.x != 0) return;
    device::AtomicRef<std::uint32_t, Scope::gpu> arrived(*a.arrived);
    if (arrived.fetch_add(1, device::acq_rel) + 1 != t.blocks.x) return;
    arrived.store(0, device::relaxed);
    // The last block has acquired the others' writes, and releases them with its own.
    device::AtomicRef<std::uint64_t, Scope::system>(*a.signal).store(a.value, device::release);
#endif
  }
};

struct WaitByHand {
  static constexpr const char* name = "wait_by_hand";
  static constexpr const char* waits_for[] = {"the signal"};
  using Args = WaitByHandArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
    if (!t.is_first()) return;
    const std::uint64_t start = device::NativeMemory::now();
    const device::AtomicRef<std::uint64_t, Scope::system> signal(*a.signal);
    device::NativeMemory::Backoff backoff;
    for (std::uint64_t seen; (seen = signal.load(device::acquire)) < a.value; backoff.pause()) {
      const std::uint64_t waited = device::NativeMemory::now() - start;
      if (waited > kPatience) return t.give_up(0, a.value, seen, waited);
    }
  }
};

ATTACCA_HD std::uint64_t churn(std::uint64_t x, std::uint32_t rounds) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

ATTACCA_HD std::uint64_t result_of(std::uint64_t item, std::uint64_t items, std::uint32_t rounds) {
  return churn(item + 1, item < items / 2 ? rounds : 0);
}

struct Busy {
  static constexpr const char* name = "busy";
  static constexpr bool waits = true;
  using Args = BusyArgs;
  static Cost cost(const Args& a) { return {.flops = 6.0 * a.rounds, .bytes = 8.0}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.wait_for_producers();
    t.release_consumers();  // after the wait, so that only the next one starts early
    a.out[t.index()] = churn(t.index() + 1, a.rounds);
  }
};

struct DoItems {
  static constexpr const char* name = "do_items";
  using Args = ItemsArgs;
  static Cost cost(const Args& a) {
    return {.flops = 6.0 * a.rounds * static_cast<double>(a.items) / 2, .bytes = 8.0};
  }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.thread.x != 0) return;
    const std::uint64_t blocks = t.blocks.x;
    std::uint64_t result = 0;
    for (std::uint64_t turn = 0;; ++turn) {
      const std::uint64_t item = next(t, a, blocks, turn);
      if (item >= a.items) break;
      result += result_of(item, a.items, a.rounds);
    }
    a.out[t.block.x] = result;
  }

 private:
  ATTACCA_HD static std::uint64_t next(const Thread& t, const Args& a, std::uint64_t blocks,
                                       std::uint64_t turn) {
    if (a.split == Split::steal)
      return device::AtomicRef<std::uint64_t, Scope::system>(*a.counter)
          .fetch_add(1, device::relaxed);
    if (a.split == Split::perfect) return (turn * blocks + t.block.x) * a.ranks + a.rank;
    const std::uint64_t each = a.items / a.ranks, at = turn * blocks + t.block.x;
    return at < each ? a.rank * each + at : a.items;
  }
};

struct Meetings {
  static constexpr const char* name = "meetings";
  static constexpr const char* waits_for[] = {"the other ranks"};
  using Args = MeetingsArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
    if (!t.is_first()) return;
    for (std::uint32_t turn = a.past + 1; turn <= a.past + a.turns; ++turn)
      if (a.barrier.meet(turn, kPatience) != a.barrier.ranks)
        return t.give_up(0, turn, turn - 1, kPatience);
  }
};

}  // namespace

const Kernel<PutByHandArgs> put_by_hand = make_kernel<PutByHand>();
const Kernel<WaitByHandArgs> wait_by_hand = make_kernel<WaitByHand>();
const Kernel<BusyArgs> busy = make_kernel<Busy>();
const Kernel<ItemsArgs> do_items = make_kernel<DoItems>();
const Kernel<MeetingsArgs> meetings = make_kernel<Meetings>();

std::uint64_t sum_of_items(std::uint64_t items, std::uint32_t rounds) {
  std::uint64_t sum = 0;
  for (std::uint64_t item = 0; item < items; ++item) sum += result_of(item, items, rounds);
  return sum;
}

}  // namespace bench
