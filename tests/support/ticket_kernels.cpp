// ticket_kernels.cpp: the body of the kernel that claims tickets.
#include "support/ticket_kernels.hpp"

namespace attacca::test {

namespace {

using device::LocalTickets;
using device::relaxed;
using device::Tickets;
using Local = LocalTickets<ClaimArgs::kRefill>;

ATTACCA_HD void mark(const Thread& t, const ClaimArgs& a, const Tickets& tickets) {
  const auto warp = static_cast<std::uint32_t>(t.index() / 32 + 1);
  for (std::uint32_t at = 0; at < tickets.count; ++at) {
    const std::uint64_t ticket = tickets.first + at;
    if (ticket >= a.limit) {
      a.wrong->fetch_add(1, relaxed);
      return;
    }
    std::uint32_t before = 0;
    a.warps[ticket].compare_exchange(before, warp, relaxed, relaxed);
    if (before != 0 && before != warp) a.wrong->fetch_add(1, relaxed);
    a.lanes[ticket].fetch_or(1u << t.index() % 32, relaxed);
    a.counts[ticket].fetch_add(1, relaxed);
  }
}

/// A few operations whose number depends on the lane.
ATTACCA_HD std::uint32_t dawdle(std::uint32_t lane) {
  std::uint32_t hash = lane;
  for (std::uint32_t at = 0; at < lane * 3 % 7; ++at) hash = hash * 747796405u + 2891336453u;
  return hash;
}

ATTACCA_HD Tickets claim(std::uint32_t lane, const ClaimArgs& a, Local& local, Claiming claiming) {
  switch (claiming) {
    case Claiming::alone:
      return a.counter->claim(a.batch, a.limit);
    case Claiming::together:
      return a.counter->claim_together(a.batch, a.limit);
    case Claiming::two_levels:
      return local.claim_together(*a.counter, a.batch, a.limit);
    case Claiming::some_lanes:
      // The compiler cannot know that this is never true.
      if (dawdle(lane) == 0xdeadbeef) return {};
      return a.counter->claim_each(a.limit);
    default:
      return a.counter->claim_each(a.limit);
  }
}

ATTACCA_HD void claim_all(const Thread& t, const ClaimArgs& a, Local& local) {
  const auto lane = static_cast<std::uint32_t>(t.index() % 32);
  Claiming claiming = a.claiming;
  if (claiming == Claiming::some_lanes && lane % 5 % 2 == 1) return;
  if (claiming == Claiming::single_lane && lane != 31) return;
  if (claiming == Claiming::mixed) claiming = static_cast<Claiming>((lane + t.index() / 32) % 5);
  if (claiming == Claiming::in_block) claiming = Claiming::single_lane;
  while (const Tickets tickets = claim(lane, a, local, claiming)) mark(t, a, tickets);
}

struct ClaimTickets {
  static constexpr const char* name = "claim_tickets";
  using Args = ClaimArgs;
  static Cost cost(const Args& a) {
    return {.flops = 0, .bytes = 12.0 * static_cast<double>(a.limit)};
  }
  /// Threads run one after another, so the first one gets most tickets.
  ATTACCA_HD static void body(Thread& t, const Args& a) {
#if defined(__CUDA_ARCH__)
    __shared__ Local local;
    __shared__ std::uint64_t slot;
    if (t.thread.x == 0) local.reset();
    __syncthreads();
    if (a.claiming == Claiming::in_block) {
      while (const Tickets tickets = a.counter->claim_block(a.batch, a.limit, slot))
        for (std::uint32_t at = t.thread.x; at < tickets.count; at += t.threads.x)
          mark(t, a, {tickets.first + at, 1});
      return;
    }
    claim_all(t, a, local);
#else
    Local local;
    local.reset();
    claim_all(t, a, local);
#endif
  }
};

}  // namespace

const Kernel<ClaimArgs> claim_tickets = make_kernel<ClaimTickets>();

}  // namespace attacca::test
