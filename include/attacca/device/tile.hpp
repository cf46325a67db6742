// tile.hpp: shared memory of a block: a tile padded so that a warp reads its columns without bank
// conflicts, and a count of the conflicts of a given access.
#pragma once

#include <attacca/target.hpp>
#include <type_traits>

/// Marks a local variable of a kernel's body as shared by the block's threads. On the host, where
/// they run one after another, each has a variable of its own.
#if defined(__CUDA_ARCH__)
#define ATTACCA_SHARED __shared__
#else
#define ATTACCA_SHARED
#endif

namespace attacca::device {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kBanks = 32;
inline constexpr unsigned kBankBytes = 4;

/// Turns of shared memory for the lanes of a warp that each touch `bytes` bytes. A turn serves 128
/// bytes, so 8 bytes a lane take two turns and 16 bytes four.
ATTACCA_HD constexpr unsigned bank_turns(unsigned lanes, unsigned bytes) {
  const unsigned lanes_at_once = kBanks * kBankBytes / (bytes < kBankBytes ? kBankBytes : bytes);
  return (lanes + lanes_at_once - 1) / lanes_at_once;
}

/// Turns that an access takes beyond `bank_turns`, because lanes want different words of one bank.
/// `offset_of(lane)` is where the lane's element starts, in bytes. Lanes that want the same word
/// share it. REQUIRES: bytes is 1, 2, 4, 8 or 16, offsets are its multiples; at most 32 lanes.
template <class OffsetOf>
ATTACCA_HD constexpr unsigned bank_conflicts(unsigned lanes, unsigned bytes, OffsetOf offset_of) {
  const unsigned words_each = bytes < kBankBytes ? 1 : bytes / kBankBytes;
  const unsigned lanes_at_once = kBanks / words_each;
  unsigned conflicts = 0;
  for (unsigned first = 0; first < lanes; first += lanes_at_once) {
    unsigned words[kBanks] = {};    // the different words of this turn
    unsigned in_bank[kBanks] = {};  // how many of them each bank holds
    unsigned count = 0;
    unsigned most = 1;
    for (unsigned lane = first; lane < lanes && lane < first + lanes_at_once; ++lane) {
      for (unsigned part = 0; part < words_each; ++part) {
        const unsigned word = offset_of(lane) / kBankBytes + part;
        bool is_new = true;
        for (unsigned at = 0; at < count; ++at) is_new = is_new && words[at] != word;
        if (!is_new) continue;
        words[count++] = word;
        const unsigned now = ++in_bank[word % kBanks];
        if (now > most) most = now;
      }
    }
    conflicts += most - 1;
  }
  return conflicts;
}

/// Elements from one row to the next so that no column has conflicts: the least that holds
/// `columns` and is an odd number of banks, or of elements where those are wider.
/// REQUIRES: bytes, the size of an element, is 1, 2, 4, 8 or 16.
ATTACCA_HD constexpr unsigned padded_pitch(unsigned columns, unsigned bytes) {
  const unsigned unit = bytes < kBankBytes ? kBankBytes / bytes : 1;  // elements
  return ((columns + unit - 1) / unit | 1) * unit;
}

/// Rows of elements in shared memory: a warp whose lanes walk along a row or down a column has no
/// bank conflicts. As ATTACCA_SHARED it is not initialised; readers must synchronize with writers.
template <class T, unsigned kRowCount, unsigned kColumnCount>
struct PaddedTile {
  static_assert(std::is_trivially_default_constructible_v<T>, "shared memory runs no constructors");
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 ||
                    sizeof(T) == 16,
                "a tile's elements have 1, 2, 4, 8 or 16 bytes");
  static_assert(kRowCount > 0 && kColumnCount > 0, "a tile has at least one row and one column");

  static constexpr unsigned kRows = kRowCount;
  static constexpr unsigned kColumns = kColumnCount;
  static constexpr unsigned kPitch = padded_pitch(kColumns, sizeof(T));

  T cells[kRows * kPitch];

  ATTACCA_HD T& at(unsigned row, unsigned column) { return cells[row * kPitch + column]; }
  ATTACCA_HD const T& at(unsigned row, unsigned column) const {
    return cells[row * kPitch + column];
  }

  struct Place {
    unsigned row;
    unsigned column;
  };
  /// Bank conflicts of an access where lane i touches `place_of(i)`.
  template <class PlaceOf>
  ATTACCA_HD static constexpr unsigned conflicts(unsigned lanes, PlaceOf place_of) {
    return bank_conflicts(lanes, sizeof(T), [&](unsigned lane) {
      const Place place = place_of(lane);
      return (place.row * kPitch + place.column) * static_cast<unsigned>(sizeof(T));
    });
  }
};

}  // namespace attacca::device
