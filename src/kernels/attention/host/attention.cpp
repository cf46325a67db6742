// attention.cpp: cuts a step of attention into items of work on the host, and runs each item's
// lines over the tiles that they see.
#include "kernels/attention/host/attention.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/attention/host/attention_tile.hpp"
#include "kernels/host/row_block.hpp"

namespace attacca::kernels::host {
namespace {

constexpr unsigned kMaxTokens = 8;  // of one item

/// Tokens of one slot, rows [row, row + tokens), and a span of heads.
struct Item {
  std::uint32_t row;
  std::uint32_t tokens;
  std::uint32_t first_head;
  std::uint32_t last_head;  // past the last

  unsigned line(std::uint32_t token, std::uint32_t head) const {
    return token * (last_head - first_head) + head - first_head;
  }
};

/// The positions [first, last] that a token sees.
struct Sight {
  std::uint32_t first;
  std::uint32_t last;
};
Sight sight_of(const AttentionArgs& a, std::uint32_t row) {
  const auto last = static_cast<std::uint32_t>(a.positions[row]);
  return {a.window != 0 && last >= a.window ? last - a.window + 1 : 0, last};
}

/// Runs the item's lines of heads [first_head, last_head), all of one kv head, over all tiles.
void walk(const AttentionArgs& a, const Item& item, std::uint32_t first_head,
          std::uint32_t last_head, Lines& lines) {
  const std::uint32_t kv_head = first_head / (a.heads / a.kv.kv_heads);
  Sight sights[kMaxTokens];
  Sight all{std::numeric_limits<std::uint32_t>::max(), 0};
  for (std::uint32_t token = 0; token < item.tokens; ++token) {
    sights[token] = sight_of(a, item.row + token);
    all.first = std::min(all.first, sights[token].first);
    all.last = std::max(all.last, sights[token].last);
  }
  for (std::uint32_t at = all.first / kTile * kTile; at <= all.last; at += kTile) {
    const std::uint64_t offset =
        a.kv.offset(static_cast<std::uint32_t>(a.slots[item.row]), at, kv_head);
    Tile tile{a.kv.keys_as<float>() + offset, a.kv.values_as<float>() + offset, 0, kTile};
    unsigned index[kMaxLines];
    unsigned count = 0;
    for (std::uint32_t token = 0; token < item.tokens; ++token) {
      const auto [first, last] = sights[token];
      if (first > at || last < at + kTile - 1) continue;
      for (std::uint32_t head = first_head; head < last_head; ++head)
        index[count++] = item.line(token, head);
    }
    attend(lines, index, count, tile, a.kv.head_size);
    for (std::uint32_t token = 0; token < item.tokens; ++token) {
      const auto [first, last] = sights[token];
      const bool sees_all = first <= at && last >= at + kTile - 1;
      if (sees_all || first >= at + kTile || last < at) continue;
      tile.first = std::max(first, at) - at;
      tile.last = std::min(last - at + 1, kTile);
      count = 0;
      for (std::uint32_t head = first_head; head < last_head; ++head)
        index[count++] = item.line(token, head);
      attend(lines, index, count, tile, a.kv.head_size);
    }
  }
}

void attend_item(const AttentionArgs& a, const Item& item) {
  const std::uint32_t size = a.kv.head_size;
  const std::uint32_t columns = (item.last_head - item.first_head) * size;
  const std::uint32_t line_count = item.tokens * (item.last_head - item.first_head);
  Lines lines;
  std::fill_n(lines.sum, line_count * size, 0.0f);
  std::fill_n(lines.max, line_count, -std::numeric_limits<float>::infinity());
  std::fill_n(lines.total, line_count, 0.0f);
  for (std::uint32_t token = 0; token < item.tokens; ++token) {
    const float* q = a.q + std::uint64_t{item.row + token} * a.q_stride + item.first_head * size;
    std::transform(q, q + columns, lines.query + token * columns,
                   [&](float element) { return element * a.scale; });
  }
  const std::uint32_t group = a.heads / a.kv.kv_heads;
  for (std::uint32_t head = item.first_head; head < item.last_head;) {
    const std::uint32_t end = std::min(item.last_head, (head / group + 1) * group);
    walk(a, item, head, end, lines);
    head = end;
  }
  for (std::uint32_t line = 0; line < line_count; ++line) {
    const float share = 1 / lines.total[line];
    for (std::uint32_t at = 0; at < size; ++at) lines.sum[line * size + at] *= share;
  }
  for (std::uint32_t token = 0; token < item.tokens; ++token) {
    const float* sum = lines.sum + token * columns;
    const std::uint32_t column = item.first_head * size;
    void* y = a.y.row(item.row + token);
    if (a.y.format == RowFormat::f32)
      std::copy_n(sum, columns, static_cast<float*>(y) + column);
    else
      to_row_blocks(sum, columns, static_cast<RowBlock*>(y) + column / RowBlock::kElements);
  }
}

}  // namespace

AttentionCut attention_cut(const AttentionArgs& a) {
  // The fewest heads that fill whole row blocks: 1, 2 or 4.
  const std::uint32_t least =
      a.y.format == RowFormat::f32
          ? 1
          : RowBlock::kElements / std::gcd(RowBlock::kElements, a.kv.head_size);
  const std::uint32_t heads = std::min(kMaxLines, std::lcm(a.heads / a.kv.kv_heads, least));
  return {std::min(heads, a.heads), std::min(kMaxTokens, kMaxLines / heads)};
}

void attention(const AttentionArgs& a, unsigned block, unsigned blocks) {
  const AttentionCut cut = attention_cut(a);
  const std::uint32_t rows = *a.rows.count;
  unsigned turn = 0;  // items go to blocks round-robin: later tokens of a prompt cost more
  for (std::uint32_t row = 0; row < rows;) {
    std::uint32_t end = row + 1;
    while (end < rows && end - row < cut.tokens && a.slots[end] == a.slots[row]) ++end;
    for (std::uint32_t head = 0; head < a.heads; head += cut.heads)
      if (turn++ % blocks == block)
        attend_item(a, {row, end - row, head, std::min(a.heads, head + cut.heads)});
    row = end;
  }
}

}  // namespace attacca::kernels::host
