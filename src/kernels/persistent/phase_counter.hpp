// phase_counter.hpp: how the blocks of a persistent step wait for each other: one count of arrivals
// for all phases. For host and device, over a memory model, so that relacy can check it.
#pragma once

#include <attacca/device/memory_model.hpp>
#include <cstdint>

namespace attacca::kernels {

/// Phases come one after another. A block that has work in a phase waits until all arrivals of the
/// phases before it are there, works, and arrives once; a block without work does neither. So no
/// block arrives for a phase before the one before is complete, and a sum of arrivals says which
/// phases are. One thread of a block calls, behind a barrier with the others.
///
/// Lies in zeroed device memory. One launch at a time may use it; each leaves it zeroed.
template <class Memory = device::NativeMemory>
class PhaseCounter {
 public:
  /// What the block wrote and read in this phase comes before what others do once they saw it.
  ATTACCA_HD void arrive() { arrived_.fetch_add(1, device::release); }
  /// Whether `wanted` blocks have arrived since the launch began; if so, their writes are visible.
  ATTACCA_HD bool has(std::uint32_t wanted) const {
    return arrived_.load(device::acquire) >= wanted;
  }
  ATTACCA_HD std::uint32_t arrived() const { return arrived_.load(device::relaxed); }
  /// Called once by each of `blocks` blocks, when it neither waits nor arrives any more. acq_rel:
  /// the last one's stores come after everything that the others did to the words.
  ATTACCA_HD void leave(std::uint32_t blocks) {
    if (left_.fetch_add(1, device::acq_rel) + 1 == blocks) reset();
  }
  /// As zeroed memory. No block may use it meanwhile.
  ATTACCA_HD void reset() {
    arrived_.store(0, device::relaxed);
    left_.store(0, device::relaxed);
  }
  ATTACCA_HD bool is_reset() const {
    return arrived_.load(device::relaxed) == 0 && left_.load(device::relaxed) == 0;
  }

 private:
  using Word = typename Memory::template Atomic<std::uint32_t, device::Scope::gpu>;
  alignas(128) Word arrived_;  // polled by all blocks
  alignas(128) Word left_;
};

}  // namespace attacca::kernels
