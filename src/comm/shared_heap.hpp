// shared_heap.hpp: symmetric memory of ranks that are threads and share a device: one piece of
// the device's memory with a part for each rank. It knows which put sets each signal, so a rank
// that waits for a signal waits for work of the device, and no kernel reads the signal in a loop.
#pragma once

#include <attacca/memory.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "comm/exchange.hpp"

namespace attacca::comm {

/// Thread-safe.
class SharedHeap {
 public:
  /// All zeros. Uses `stream` and waits for it.
  SharedHeap(const Device& device, std::size_t bytes, StreamRef stream);

  /// A put of a signal was handed to the device; `done`: it was reached.
  void announce(const std::byte* signal, std::uint64_t value, const Event& done);
  /// What the signal stands at once all that was handed to the device is done.
  std::uint64_t value_of(const std::byte* signal) const;
  /// The last put to the signal; none: there was no put.
  std::optional<Event> last_put(const std::byte* signal) const;

  std::byte* data() const { return memory_.data(); }

 private:
  struct Put {
    std::uint64_t value;
    Event done;
  };
  Buffer<std::byte> memory_;
  mutable std::mutex mutex_;
  std::unordered_map<const std::byte*, Put> puts_;  // by signal
};

/// Symmetric memory of `ranks` ranks, in one piece.
std::shared_ptr<SymmetricBlock> make_shared_block(const Device& device, std::size_t bytes,
                                                  int ranks, StreamRef stream);

/// Says that a put with a signal was handed to the device.
void announce(const ExchangeData& put, const Event& done);
/// Waits on the host until the put that a wait is for was handed to the device, and lets the stream
/// wait for it. Throws RanksBroken at the deadline.
void enqueue_wait(const ExchangeData& wait, StreamRef stream);

}  // namespace attacca::comm
