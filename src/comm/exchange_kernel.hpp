// exchange_kernel.hpp: a collective of ranks that share a device, as one kernel that reads and
// writes the memory of all of them.
#pragma once

#include <attacca/kernel.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/exchange.hpp"

namespace attacca::comm {

inline constexpr int kMostSharing = 8;  // ranks on one device

struct ExchangeArgs {
  const std::byte* from[kMostSharing];
  std::byte* to[kMostSharing];
  std::uint64_t count;         // units of a part
  const std::uint32_t* limit;  // null: all are moved
  std::uint64_t each;          // units for each that `limit` counts
  std::uint32_t unit_bytes;    // of an element, if something is computed with it
  std::int32_t ranks;
  std::int32_t targets;  // ranks that get the result of an all-reduce: the first of `to`
  std::int32_t root;
  Operation operation;
  ElementType type;
  Reduction reduction;
};

const Kernel<ExchangeArgs>& exchange_kernel(const ExchangeArgs& args);
Grid grid_of(const ExchangeArgs& args, bool is_cuda);

/// REQUIRES: one exchange of each rank, by rank, whose descriptors agree.
ExchangeArgs args_of(std::span<const ExchangeData* const> exchanges);
/// Adds up `count` elements of several parts, in the order of the reduction. They are described as
/// those of the exchange.
ExchangeArgs sum_of(const Descriptor& exchange, std::span<const std::byte* const> parts,
                    std::byte* to, std::uint64_t count);

}  // namespace attacca::comm
