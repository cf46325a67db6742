// signal.hpp: a word that one side raises and others wait for. Writes before `publish` are visible
// after `wait`. Values only grow (and may wrap), so a signal can be used again without a reset:
// publish 1, 2, 3, … and wait for the number.
#pragma once

#include <attacca/device/wait.hpp>

namespace attacca::device {

/// Lies in memory that both sides see: shared memory, device memory, or pinned memory for `system`
/// scope. Zero it before use.
template <Scope kScope, class Memory = NativeMemory>
class Signal {
 public:
  /// This thread's earlier writes are visible to a thread that sees `value`. One publisher.
  ATTACCA_HD void publish(std::uint32_t value) { word_.store(value, release); }

  /// Adds one. For several publishers, each of which releases its writes.
  ATTACCA_HD void raise() {
    static_assert(kScope != Scope::system,
                  "host and device cannot add to one word on most machines: publish a number");
    word_.fetch_add(1, acq_rel);
  }

  /// Waits until the value is at least `value`, acquiring at every poll. Where patience ends first,
  /// records that and returns false.
  ATTACCA_HD bool wait(std::uint32_t value, const Patience& patience) const {
    std::uint32_t seen = 0;
    return detail::wait_for<Memory>(
        patience, value,
        [&] {
          seen = word_.load(acquire);
          return has_reached(seen, value);
        },
        [&] { return std::uint64_t{seen}; });
  }
  /// Whether the value is there now; if so, the publisher's writes are visible.
  ATTACCA_HD bool is_at(std::uint32_t value) const {
    return has_reached(word_.load(acquire), value);
  }

  /// Raises several signals with one fence.
  template <class... Signals>
  ATTACCA_HD static void publish_all(std::uint32_t value, Signals&... signals) {
    Memory::template fence<kScope>(release);
    (signals.word_.store(value, after_release_fence), ...);
  }

 private:
  ATTACCA_HD static bool has_reached(std::uint32_t seen, std::uint32_t value) {
    return static_cast<std::int32_t>(seen - value) >= 0;
  }
  typename Memory::template Atomic<std::uint32_t, kScope> word_;
};

}  // namespace attacca::device
