// merge_table.hpp: for each pair of tokens that merge, the token they become and the rank of the
// merge. It is a flat hash table, because encoding looks up every pair of neighbours.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace attacca::text {

struct Merge {
  std::uint32_t rank = 0;  // the lowest merges first
  std::int32_t id = -1;    // the token that the two become
};

class MergeTable {
 public:
  void reserve(std::size_t count) {
    if (2 * count > slots_.size()) rehash(std::bit_ceil(2 * count + 1));
  }

  /// Adds a merge, or replaces that of the pair.
  void set(std::int32_t left, std::int32_t right, Merge merge) {
    reserve(count_ + 1);
    Slot& slot = slots_[place(key(left, right))];
    if (slot.merge.id < 0) ++count_;
    slot = {key(left, right), merge};
  }

  /// Null if the two do not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[place(key(left, right))];
    return slot.merge.id < 0 ? nullptr : &slot.merge;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;  // id -1: the slot is free
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }

  /// The slot of the key, or the free slot where it would go. At most half the slots are taken, so
  /// the search ends.
  std::size_t place(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key * 0x9E3779B97F4A7C15u) >> 32 & mask;
    while (slots_[at].merge.id >= 0 && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void rehash(std::size_t size) {
    std::vector<Slot> old(size);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.merge.id >= 0) slots_[place(slot.key)] = slot;
  }

  std::vector<Slot> slots_;  // a power of two of them, or none
  std::size_t count_ = 0;
};

}  // namespace attacca::text
