// address_range.hpp: addresses that nothing else in the process can have, and that fault when
// touched. They stand for conditions, allocations and nodes until their graph is instantiated.
// Those of a graph that is gone are not given to another, so its handles stay known as handles of
// nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace attacca::graph {

/// Owns `bytes` addresses and a gap behind them, for the end of an array and for indices that are a
/// little too large. Thread-safe.
///
/// A process gives out addresses from among 16 TiB before it gives any a second time, those given
/// out first before the others: enough for 10^8 graphs with conditions, or 3000 with an allocation
/// of 1 GiB. Fewer where the system reserves no more for it (ulimit -v). From then on a handle of a
/// graph that is gone may be one of a new graph.
class AddressRange {
 public:
  /// Throws BadArgument where the system has no stretch of that size.
  explicit AddressRange(std::size_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  std::uintptr_t base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether it is the range's, or in the gap behind it.
  bool holds(std::uintptr_t address) const { return address - base_ < with_gap(bytes_); }

  /// Whether an address is reserved for ranges: in one of any graph, in one of a graph that is
  /// gone, or near them.
  static bool is_stand_in(std::uintptr_t address) {
    return may_be_stand_in(address) && is_reserved(address);
  }
  /// False is certain and costs two comparisons. True may be wrong: the bounds enclose every
  /// reservation, and other memory may lie between two of them.
  static bool may_be_stand_in(std::uintptr_t address) {
    // relaxed: a caller that holds a stand-in got it after the bounds were set.
    return address >= lowest_.load(std::memory_order_relaxed) &&
           address <= highest_.load(std::memory_order_relaxed);
  }

 private:
  friend class Reservations;
  static constexpr std::size_t kUnit = 4096;  // a range starts at a multiple of it
  /// At least a unit of gap.
  static constexpr std::size_t with_gap(std::size_t bytes) {
    return bytes / kUnit * kUnit + 2 * kUnit;
  }
  static bool is_reserved(std::uintptr_t address);

  static inline std::atomic<std::uintptr_t> lowest_{~std::uintptr_t{0}};
  static inline std::atomic<std::uintptr_t> highest_{0};
  std::uintptr_t base_;
  std::size_t bytes_;
};

}  // namespace attacca::graph
