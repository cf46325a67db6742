// reduce.cpp: adds up block by block in the first cache, so each source is read once and each
// target written once.
#include "comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

namespace attacca::comm {

namespace {

constexpr std::size_t kBlockBytes = 16 * 1024;
constexpr std::size_t kLineBytes = 64;

template <class T, class Combine>
void combine_all(std::byte* into, std::span<const std::byte* const> sources, std::size_t offset,
                 std::size_t bytes, Combine combine) {
  T* const sum = reinterpret_cast<T*>(into);
  const std::size_t count = bytes / sizeof(T);
  const T* const first = reinterpret_cast<const T*>(sources[0] + offset);
  if (sources.size() == 1) {
    if (sum != first) std::memcpy(sum, first, bytes);
    return;
  }
  const T* const second = reinterpret_cast<const T*>(sources[1] + offset);
  for (std::size_t at = 0; at < count; ++at) sum[at] = combine(first[at], second[at]);
  for (const std::byte* source : sources.subspan(2)) {
    const T* const next = reinterpret_cast<const T*>(source + offset);
    for (std::size_t at = 0; at < count; ++at) sum[at] = combine(sum[at], next[at]);
  }
}

template <class T>
void reduce_block(Reduction reduction, std::byte* into, std::span<const std::byte* const> sources,
                  std::size_t offset, std::size_t bytes) {
  const auto all = [&](auto combine) { combine_all<T>(into, sources, offset, bytes, combine); };
  switch (reduction) {
    // Integers wrap around.
    case Reduction::sum:
    case Reduction::sum_in_pairs:
      if constexpr (std::is_integral_v<T>)
        return all([](T a, T b) {
          using U = std::make_unsigned_t<T>;
          return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
        });
      else
        return all([](T a, T b) { return a + b; });
    case Reduction::min:
      return all([](T a, T b) { return b < a ? b : a; });
    case Reduction::max:
      return all([](T a, T b) { return a < b ? b : a; });
  }
}

void reduce_block(const Descriptor& d, std::byte* into, std::span<const std::byte* const> sources,
                  std::size_t offset, std::size_t bytes) {
  switch (d.type) {
    case ElementType::i32:
      return reduce_block<std::int32_t>(d.reduction, into, sources, offset, bytes);
    case ElementType::u32:
      return reduce_block<std::uint32_t>(d.reduction, into, sources, offset, bytes);
    case ElementType::i64:
      return reduce_block<std::int64_t>(d.reduction, into, sources, offset, bytes);
    case ElementType::u64:
      return reduce_block<std::uint64_t>(d.reduction, into, sources, offset, bytes);
    case ElementType::f32:
      return reduce_block<float>(d.reduction, into, sources, offset, bytes);
    case ElementType::f64:
      return reduce_block<double>(d.reduction, into, sources, offset, bytes);
    case ElementType::bytes:
      return;  // Group takes only types that can be added up
  }
}

/// Adds neighbours, then the sums of neighbours: the largest power of two of them, and the rest.
void add_in_pairs(const Descriptor& d, std::byte* into, std::span<const std::byte* const> sources,
                  std::size_t offset, std::size_t bytes) {
  if (sources.size() <= 2) return reduce_block(d, into, sources, offset, bytes);
  const std::size_t half = std::bit_ceil(sources.size()) / 2;
  alignas(kLineBytes) std::byte rest[kBlockBytes];
  add_in_pairs(d, into, sources.first(half), offset, bytes);
  add_in_pairs(d, rest, sources.subspan(half), offset, bytes);
  reduce_block(d, into, std::array<const std::byte*, 2>{into, rest}, 0, bytes);
}

}  // namespace

Slice slice_of(const Descriptor& descriptor, int index, int parts) {
  const std::size_t all = descriptor.moved_bytes();
  const auto n = static_cast<std::size_t>(parts);
  const std::size_t each = ((all + n - 1) / n + kLineBytes - 1) / kLineBytes * kLineBytes;
  const std::size_t first = std::min(all, each * static_cast<std::size_t>(index));
  return {first, std::min(each, all - first)};
}

void reduce(const Descriptor& descriptor, std::span<const std::byte* const> sources,
            std::span<std::byte* const> targets, std::size_t bytes) {
  alignas(kLineBytes) std::byte block[kBlockBytes];
  for (std::size_t offset = 0; offset < bytes; offset += kBlockBytes) {
    const std::size_t part = std::min(kBlockBytes, bytes - offset);
    // Two sources are read before their sum is written, so it may go over one of them. With more,
    // that one may still have to be added.
    std::byte* const sum = sources.size() <= 2 ? targets[0] + offset : block;
    if (descriptor.reduction == Reduction::sum_in_pairs)
      add_in_pairs(descriptor, sum, sources, offset, part);
    else
      reduce_block(descriptor, sum, sources, offset, part);
    for (std::byte* target : targets)
      if (target + offset != sum) std::memcpy(target + offset, sum, part);
  }
}

}  // namespace attacca::comm
