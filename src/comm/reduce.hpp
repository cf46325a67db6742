// reduce.hpp: reductions over ranks, always in the order that the reduction names.
#pragma once

#include <cstddef>
#include <span>

#include "comm/exchange.hpp"

namespace attacca::comm {

/// A part of an array, in bytes.
struct Slice {
  std::size_t first = 0;
  std::size_t bytes = 0;
};

/// Part `index` of `parts` of what is moved; they are about equal and begin at cache lines.
Slice slice_of(const Descriptor& descriptor, int index, int parts);

/// Writes the reduction of `sources` to all of `targets`. A target may be a
/// source, and no two overlap otherwise.
void reduce(const Descriptor& descriptor, std::span<const std::byte* const> sources,
            std::span<std::byte* const> targets, std::size_t bytes);

}  // namespace attacca::comm
