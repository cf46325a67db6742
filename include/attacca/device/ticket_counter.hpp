// ticket_counter.hpp: numbers 0, 1, 2, …, each handed to exactly one claimer: the simplest way for
// workers to share a known amount of work. All claim from one word; batches keep contention low.
#pragma once

#include <attacca/device/lanes.hpp>
#include <attacca/device/memory_model.hpp>

namespace attacca::device {

/// Consecutive tickets.
struct Tickets {
  std::uint64_t first = 0;
  std::uint32_t count = 0;  // 0: there are no more
  ATTACCA_HD explicit operator bool() const { return count != 0; }
};

/// Lies in zeroed device memory. Tickets from `limit` on are never given out.
template <class Memory = NativeMemory>
class BasicTicketCounter {
 public:
  /// Up to `count` tickets, for the calling thread alone.
  ATTACCA_HD Tickets claim(std::uint32_t count, std::uint64_t limit) {
    return clipped(next_.fetch_add(count, relaxed), count, limit);
  }

  /// One ticket for each lane that is here, with one atomic operation for all of them.
  ATTACCA_HD Tickets claim_each(std::uint64_t limit) {
    const ActiveLanes lanes = ActiveLanes::here();
    std::uint64_t first = 0;
    if (lanes.is_leader()) first = next_.fetch_add(lanes.count(), relaxed);
    return clipped(lanes.from_leader(first) + lanes.rank(), 1, limit);
  }

  /// Up to `count` tickets for all lanes that are here: each gets the same answer.
  ATTACCA_HD Tickets claim_together(std::uint32_t count, std::uint64_t limit) {
    const ActiveLanes lanes = ActiveLanes::here();
    std::uint64_t first = 0;
    if (lanes.is_leader()) first = next_.fetch_add(count, relaxed);
    return clipped(lanes.from_leader(first), count, limit);
  }

#if defined(__CUDACC__)
  /// Up to `count` tickets for the block. All its threads call, and all get the same answer.
  /// `slot` is shared memory of the block.
  __device__ Tickets claim_block(std::uint32_t count, std::uint64_t limit, std::uint64_t& slot) {
    __syncthreads();  // the slot may still be read from the last time
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
      slot = next_.fetch_add(count, relaxed);
    __syncthreads();
    return clipped(slot, count, limit);
  }
#endif

  /// Starts the counter again. No thread may be claiming.
  ATTACCA_HD void reset() { next_.store(0, relaxed); }
  /// Tickets asked for so far; may pass any limit.
  ATTACCA_HD std::uint64_t claimed() const { return next_.load(relaxed); }

 private:
  ATTACCA_HD static Tickets clipped(std::uint64_t first, std::uint32_t count, std::uint64_t limit) {
    if (first >= limit) return {first, 0};
    const std::uint64_t left = limit - first;
    return {first, left < count ? static_cast<std::uint32_t>(left) : count};
  }
  typename Memory::template Atomic<std::uint64_t, Scope::gpu> next_;
};
using TicketCounter = BasicTicketCounter<>;

/// The lower level of a two-level counter. It lies in a block's shared memory, takes `kRefill`
/// tickets at a time from a TicketCounter and deals them out to the block's threads. Zero it
/// (`reset`, by one thread, before a __syncthreads) before use. Tickets stay below 2^40. One thread
/// refills at a time. A thread that has waited some 200 us for a refill claims from the
/// TicketCounter directly. Claim until there are no more: the thread that refills then deals out
/// the rest.
template <std::uint32_t kRefill, class Memory = NativeMemory>
class BasicLocalTickets {
  static_assert(kRefill > 0 && kRefill <= 1u << 16);

 public:
  static constexpr std::uint32_t kMostAtOnce = 1024;

  ATTACCA_HD void reset() {
    word_.store(kRefill, relaxed);  // all dealt out
    is_refilling_.store(0, relaxed);
  }

  /// Up to `count` (at most kMostAtOnce) tickets for all lanes that are here.
  ATTACCA_HD Tickets claim_together(BasicTicketCounter<Memory>& from, std::uint32_t count,
                                    std::uint64_t limit) {
    const ActiveLanes lanes = ActiveLanes::here();
    Tickets got;
    if (lanes.is_leader()) got = claim(from, count, limit);
    got.first = lanes.from_leader(got.first);
    got.count = lanes.from_leader(got.count);
    return got;
  }

  /// The same for the calling thread alone.
  ATTACCA_HD Tickets claim(BasicTicketCounter<Memory>& from, std::uint32_t count,
                           std::uint64_t limit) {
    typename Memory::Backoff backoff;
    for (unsigned polls = 0; polls < kMostPolls;) {
      // Load before adding, so that a claimer overshoots at most once per refill and the count of
      // dealt tickets cannot run into the bits above it.
      if (dealt(word_.load(relaxed)) < kRefill) {
        const std::uint64_t word = word_.fetch_add(count, relaxed);
        const std::uint32_t at = dealt(word);
        if (at < kRefill) {
          const std::uint64_t first = base(word) + at;
          const std::uint32_t left = kRefill - at;
          if (first >= limit) return {first, 0};
          std::uint64_t most = limit - first;
          if (left < most) most = left;
          return {first, most < count ? static_cast<std::uint32_t>(most) : count};
        }
      }
      // The thread that takes the flag refills. It loads the word again: another may have refilled.
      if (is_refilling_.exchange(1, acquire) == 0) {
        if (dealt(word_.load(relaxed)) >= kRefill) {
          const Tickets more = from.claim(kRefill, limit);
          if (!more) {
            is_refilling_.store(0, release);
            return more;
          }
          word_.store(more.first << kDealtBits, relaxed);
        }
        is_refilling_.store(0, release);
      } else {
        backoff.pause();
        ++polls;
      }
    }
    return from.claim(count, limit);
  }

 private:
  // High bits: the first ticket of this refill. Low bits: the number dealt, or more where claimers
  // came too late.
  static constexpr unsigned kDealtBits = 24;
  static constexpr unsigned kMostPolls = 1024;
  ATTACCA_HD static std::uint32_t dealt(std::uint64_t word) {
    return static_cast<std::uint32_t>(word & ((1u << kDealtBits) - 1));
  }
  ATTACCA_HD static std::uint64_t base(std::uint64_t word) { return word >> kDealtBits; }

  typename Memory::template Atomic<std::uint64_t, Scope::block> word_;
  typename Memory::template Atomic<std::uint32_t, Scope::block> is_refilling_;
};
template <std::uint32_t kRefill>
using LocalTickets = BasicLocalTickets<kRefill>;

}  // namespace attacca::device
