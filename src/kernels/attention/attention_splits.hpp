// attention_splits.hpp: how the positions that a row sees are split over blocks (split-K, as in
// Flash-Decoding), and the layout of the workspace for their partial results. Only sizes and
// offsets; the kernels are in attention_rows.cuh.
#pragma once

#include <attacca/target.hpp>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/paged_kv.hpp"

namespace attacca::kernels {

ATTACCA_HD constexpr std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

/// Query heads of one kv head that are computed together; a larger group is cut into parts.
inline constexpr std::uint32_t kTileHeads = 8;
/// A split has a multiple of this many positions: 16 for each of four warps.
inline constexpr std::uint32_t kSplitStep = 64;
inline constexpr std::uint32_t kMaxSplits = 32;  // one for each lane

/// How a row is split: into about `pieces` splits of `least` to `most` positions. A long row gets
/// more splits, or longer ones once there are kMaxSplits. Each split leaves a partial result to be
/// combined.
struct Splits {
  std::uint32_t pieces;
  std::uint32_t least;
  std::uint32_t most;

  ATTACCA_HD constexpr std::uint32_t size(std::uint32_t span) const {
    const std::uint32_t few = step_up(ceil_div(span, pieces));
    const std::uint32_t many = step_up(ceil_div(span, kMaxSplits));
    const std::uint32_t wanted = few < least ? least : few < most ? few : most;
    return wanted < many ? many : wanted;
  }
  ATTACCA_HD constexpr std::uint32_t count(std::uint32_t span) const {
    return span == 0 ? 1 : ceil_div(span, size(span));
  }

 private:
  ATTACCA_HD static constexpr std::uint32_t step_up(std::uint32_t positions) {
    return ceil_div(positions, kSplitStep) * kSplitStep;
  }
};

/// Where every row is split alike, by position alone: kEven splits of kLeast positions, then kEven
/// for each doubling of the position. So a row of any length has few splits, and the same ones
/// whatever computes it. With a window no split is longer than kLeast or a kEven-th of it.
///
/// A block may compute several neighbouring splits. What it takes is split by the same rule, with
/// more positions than kLeast; so no split is cut.
struct FixedSplits {
  static constexpr std::uint32_t kLeastBits = 7;
  static constexpr std::uint32_t kLeast = 1 << kLeastBits;
  static constexpr std::uint32_t kEven = 8;
  std::uint32_t least_bits;  // log2 of the least positions of a split
  std::uint32_t doublings;   // at most

  ATTACCA_HD static constexpr FixedSplits of_window(std::uint32_t window,
                                                    std::uint32_t least_bits = kLeastBits) {
    std::uint32_t most = window == 0 ? 20 : 0;
    while (window != 0 && (2 * kEven << least_bits << most) <= window) ++most;
    return {least_bits, most};
  }
  /// The split that has a position.
  ATTACCA_HD constexpr std::uint32_t at(std::uint32_t position) const {
    const std::uint32_t times = doubled_at(position);
    return times * kEven + (position >> (least_bits + times));
  }
  /// log2 of the size of the split that has a position.
  ATTACCA_HD constexpr std::uint32_t bits_at(std::uint32_t position) const {
    return least_bits + doubled_at(position);
  }
  ATTACCA_HD constexpr std::uint32_t size(std::uint32_t split) const {
    return 1u << (least_bits + doubled(split));
  }
  /// Splits begin at multiples of their size.
  ATTACCA_HD constexpr std::uint32_t begin(std::uint32_t split) const {
    const std::uint32_t times = doubled(split);
    return (split - times * kEven) << (least_bits + times);
  }

 private:
  ATTACCA_HD constexpr std::uint32_t doubled_at(std::uint32_t position) const {
    std::uint32_t times = 0;
    while (times < doublings && position >> times >= 2 * kEven << least_bits) ++times;
    return times;
  }
  ATTACCA_HD constexpr std::uint32_t doubled(std::uint32_t split) const {
    const std::uint32_t times = split < kEven ? 0 : split / kEven - 1;
    return times < doublings ? times : doublings;
  }
};

/// With so few rows, attention needs only one block on each SM, beside one of a linear kernel.
inline constexpr std::uint32_t kFewRows = 2;

/// The splits of a step with up to `rows` rows. Few rows are split finely, so that they keep many
/// SMs busy. Many rows are work enough, and long splits cost less. With `same_bits` rows are split
/// alike in every step.
ATTACCA_HD constexpr Splits splits_of(bool same_bits, std::uint32_t rows) {
  return same_bits          ? Splits{16, 128, 256}
         : rows <= kFewRows ? Splits{16, 64, 256}
         : rows <= 16       ? Splits{16, 128, 256}
                            : Splits{8, 256, 512};
}
/// log2 of the least positions of a block where rows have fixed splits: a block has several of them
/// where there is work enough.
ATTACCA_HD constexpr std::uint32_t least_bits_of_block(std::uint32_t rows, std::uint32_t span) {
  return FixedSplits::kLeastBits + (span > 2048 ? 1 : 0) + (rows > 16 ? 1 : 0);
}
/// The most splits of any span up to `longest`, for any number of rows.
ATTACCA_HD constexpr std::uint32_t most_splits(std::uint32_t longest) {
  constexpr Splits kSmallest = splits_of(false, 1);
  if (longest <= kSmallest.pieces * kSmallest.least) return kSmallest.count(longest);
  const std::uint32_t many = ceil_div(longest, kSmallest.most);
  return many < kSmallest.pieces ? kSmallest.pieces : many < kMaxSplits ? many : kMaxSplits;
}
/// The same for fixed splits. They grow with the position, so that no other span has more of them
/// than the first, but for one that it only touches.
ATTACCA_HD constexpr std::uint32_t most_fixed_splits(std::uint32_t longest, std::uint32_t window) {
  return FixedSplits::of_window(window).at(longest) + 2;
}

/// How the query heads of a kv head are cut into parts.
struct HeadParts {
  std::uint32_t group;  // query heads of a kv head
  std::uint32_t count;
  std::uint32_t heads;  // of a part; the last one may have fewer

  ATTACCA_HD constexpr HeadParts(std::uint32_t all_heads, std::uint32_t kv_heads)
      : group(all_heads / kv_heads),
        count(ceil_div(group, kTileHeads)),
        heads(ceil_div(group, count)) {}
};

/// How many splits a row can have that sees up to `longest` positions: cut by its length, or at
/// fixed positions.
struct LengthSplitsOf {
  std::uint32_t longest;
  ATTACCA_HD constexpr std::uint32_t most() const { return most_splits(longest); }
};
struct FixedSplitsOf {
  std::uint32_t longest;
  std::uint32_t window;
  ATTACCA_HD constexpr std::uint32_t most() const { return most_fixed_splits(longest, window); }
};

/// The layout of a workspace: counters, then for each tile the maximum and the total of each head,
/// then its sums. Behind these, each block may have `block_bytes` for the splits of one row.
struct AttentionWorkspace {
  std::uint64_t counters;  // [1 + rows * kv_heads * parts] uint32: tiles claimed; splits finished
  std::uint64_t tiles;     // at most
  std::uint64_t stats_at;  // in bytes; [tiles, part.heads] float2
  std::uint64_t sums_at;   // in bytes; [tiles, part.heads, head_size] float
  std::uint64_t bytes;
  std::uint64_t block_sums_at;  // in bytes from a block's part, after its stats
  std::uint64_t block_bytes;

  /// `splits` tells the most splits of a row.
  template <class Most>
  ATTACCA_HD constexpr AttentionWorkspace(std::uint32_t rows, std::uint32_t heads,
                                          std::uint32_t kv_heads, std::uint32_t head_size,
                                          const Most& splits)
      : counters(0), tiles(0), stats_at(0), sums_at(0), bytes(0), block_sums_at(0), block_bytes(0) {
    const HeadParts parts(heads, kv_heads);
    const std::uint64_t groups = std::uint64_t{rows} * kv_heads * parts.count;
    counters = 1 + groups;
    tiles = groups * splits.most();
    stats_at = (counters * 4 + 255) / 256 * 256;
    sums_at = (stats_at + tiles * parts.heads * 8 + 255) / 256 * 256;
    bytes = (sums_at + tiles * parts.heads * head_size * 4 + 255) / 256 * 256;
    const std::uint64_t most = splits.most();
    block_sums_at = (most * parts.heads * 8 + 255) / 256 * 256;
    block_bytes = (block_sums_at + most * parts.heads * head_size * 4 + 255) / 256 * 256;
  }
};

/// The most positions of one slot that a row can see in these pages, counted from a multiple of 16.
ATTACCA_HD constexpr std::uint32_t longest_span(const PagedKv& kv, std::uint32_t window) {
  const std::uint32_t room = kv.table_stride * kv.page_size;
  return window != 0 && window + 15 < room ? window + 15 : room;
}

/// Most blocks on an SM of a kernel that computes rows whole.
inline constexpr std::uint32_t kMaxWholeRowBlocks = 3;

/// Workspace bytes for `rows` rows of attention over these pages, on a device with `processors`
/// SMs.
constexpr std::size_t attention_workspace_bytes(std::uint32_t rows, std::uint32_t heads,
                                                const PagedKv& kv, std::uint32_t window,
                                                unsigned processors) {
  const std::uint32_t longest = longest_span(kv, window);
  if (kv.has_fixed_splits())
    return AttentionWorkspace(rows, heads, kv.kv_heads, kv.head_size,
                              FixedSplitsOf{longest, window})
        .bytes;
  const AttentionWorkspace space(rows, heads, kv.kv_heads, kv.head_size, LengthSplitsOf{longest});
  const std::size_t blocks = kv.type == KvType::f32 ? kMaxWholeRowBlocks * processors : 0;
  return space.bytes + blocks * space.block_bytes;
}

}  // namespace attacca::kernels
