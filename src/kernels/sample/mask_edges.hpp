// mask_edges.hpp: which mask comes after a mask and a token. The host learns an edge when it is
// taken for the first time, and writes it down for the sampler, which then needs no host to go on.
#pragma once

#include <attacca/device/atomic.hpp>
#include <attacca/thread.hpp>
#include <cstdint>

namespace attacca::kernels {

/// A table without chains: an edge may replace another, which is then learned again. An edge is one
/// word, so it may be written while others are looked up.
struct MaskEdges {
  static constexpr std::uint32_t kCount = 1u << 16;
  static constexpr std::uint32_t kNone = ~0u;
  static constexpr std::uint32_t kMostMasks = (1u << 20) - 1;
  static constexpr std::uint32_t kMostTokens = 1u << 24;

  /// Stands for every token of plain characters that has no edge of its own.
  static constexpr std::int32_t kPlainTokens = kMostTokens - 1;

  std::uint64_t* words = nullptr;  // [kCount]: a token, its mask, and the next mask + 1; 0: no edge
  const std::uint32_t* plain = nullptr;  // [mask_words]: the tokens of plain characters; or null

  ATTACCA_HD static constexpr std::uint64_t word_of(std::uint32_t mask, std::int32_t token,
                                                    std::uint32_t next) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)) << 40 |
           static_cast<std::uint64_t>(mask) << 20 | (next + 1);
  }
  ATTACCA_HD static constexpr std::uint32_t place_of(std::uint32_t mask, std::int32_t token) {
    const std::uint32_t bits = mask * 0x9e3779b1u ^ static_cast<std::uint32_t>(token) * 0x85ebca6bu;
    return (bits ^ bits >> 15) % kCount;
  }

  ATTACCA_HD std::uint32_t find(std::uint32_t mask, std::int32_t token) const {
    const std::uint32_t next = find_one(mask, token);
    if (next != kNone || !plain || (plain[token / 32] >> (token % 32) & 1) == 0) return next;
    return find_one(mask, kPlainTokens);
  }
  ATTACCA_HD void put(std::uint32_t mask, std::int32_t token, std::uint32_t next) const {
    at(place_of(mask, token)).store(word_of(mask, token, next), device::relaxed);
  }
  ATTACCA_HD void clear(std::uint32_t place) const { at(place).store(0, device::relaxed); }

 private:
  ATTACCA_HD std::uint32_t find_one(std::uint32_t mask, std::int32_t token) const {
    const std::uint64_t word = at(place_of(mask, token)).load(device::relaxed);
    const std::uint64_t low = word & kMostMasks;
    return word != 0 && word - low == word_of(mask, token, kNone)
               ? static_cast<std::uint32_t>(low) - 1
               : kNone;
  }
  using Word = device::AtomicRef<std::uint64_t, device::Scope::gpu>;
  ATTACCA_HD Word at(std::uint32_t place) const { return Word(words[place]); }
};

}  // namespace attacca::kernels
