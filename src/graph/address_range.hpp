// address_range.hpp: addresses that nothing else in the process can have, and that fault when
// touched. They stand for conditions, allocations and nodes until their graph is instantiated.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace attacca::graph {

/// Owns `bytes` addresses and a gap behind them: arguments hold the end of an array too, and may by
/// mistake hold what lies a little behind it. Thread-safe.
class AddressRange {
 public:
  explicit AddressRange(std::size_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  std::uintptr_t base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether it is the range's, or in the gap behind it.
  bool holds(std::uintptr_t address) const { return address - base_ < with_gap(bytes_); }

  /// Whether an address is in a range of any graph, or in the gap behind one.
  static bool is_stand_in(std::uintptr_t address) {
    return may_be_stand_in(address) && is_in_a_range(address);
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
  static bool is_in_a_range(std::uintptr_t address);

  static inline std::atomic<std::uintptr_t> lowest_{~std::uintptr_t{0}};
  static inline std::atomic<std::uintptr_t> highest_{0};
  std::uintptr_t base_;
  std::size_t bytes_;
};

}  // namespace attacca::graph
