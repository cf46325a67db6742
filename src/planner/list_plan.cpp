// list_plan.cpp: fills the table row by row. With C the count of steps before an entry and s the
// cost of its size, row k is
//   cost_k(j) = C(j + 1) s(j) + min over i < j of [cost_k-1(i) - C(i + 1) s(j)]
// The bracket is a line in s(j), its slope falls with i, and s(j) never falls. So the lower
// envelope of the lines is walked once, and a row takes linear time.
#include "planner/list_plan.hpp"

#include <algorithm>
#include <utility>

namespace attacca::planner {

ListPlan::ListPlan(std::vector<Entry> entries, std::size_t most_sizes, bool covers)
    : entries_(std::move(entries)),
      covers_(covers),
      count_before_(entries_.size() + 1),
      own_before_(entries_.size() + 1),
      miss_from_(entries_.size() + 1) {
  for (std::size_t at = 0; at < entries_.size(); ++at) {
    count_before_[at + 1] = count_before_[at] + entries_[at].count;
    own_before_[at + 1] = own_before_[at] + entries_[at].own_cost;
  }
  for (std::size_t at = entries_.size(); at-- > 0;)
    miss_from_[at] = miss_from_[at + 1] + entries_[at].miss_cost;
  if (!covers_ || entries_.empty()) none_.cost = miss_from_[0];
  const std::size_t rows = std::min(most_sizes, entries_.size());
  rows_.reserve(rows);
  while (rows_.size() < rows)
    rows_.push_back(rows_.empty() ? first_row() : row_after(rows_.back().costs, rows_.size() + 1));
}

ListPlan::Row ListPlan::first_row() const {
  Row row{std::vector<double>(entries_.size()), std::vector<std::uint32_t>(entries_.size()), {}};
  for (std::size_t at = 0; at < entries_.size(); ++at)
    row.costs[at] = count_before_[at + 1] * entries_[at].size_cost;
  row.best = best_of(row.costs);
  return row;
}

ListPlan::Row ListPlan::row_after(const std::vector<double>& before, std::size_t count) const {
  Row row{std::vector<double>(entries_.size(), std::numeric_limits<double>::infinity()),
          std::vector<std::uint32_t>(entries_.size()),
          {}};
  struct Line {  // cost - count * size_cost
    double cost;
    double count;
    std::uint32_t entry;
    double at(double size_cost) const { return cost - count * size_cost; }
  };
  /// Whether the line between two others is nowhere the lowest: it meets the later one before the
  /// earlier one.
  const auto is_hidden = [](const Line& earlier, const Line& line, const Line& later) {
    return (later.cost - line.cost) * (line.count - earlier.count) <=
           (line.cost - earlier.cost) * (later.count - line.count);
  };
  std::vector<Line> envelope(entries_.size());
  std::size_t first = 0;  // lines before it are never the lowest again
  std::size_t end = 0;
  for (std::size_t at = count - 1; at < entries_.size(); ++at) {
    const Line added{before[at - 1], count_before_[at], static_cast<std::uint32_t>(at - 1)};
    while (end >= first + 2 && is_hidden(envelope[end - 2], envelope[end - 1], added)) --end;
    envelope[end++] = added;
    const double size_cost = entries_[at].size_cost;
    while (first + 1 < end && envelope[first + 1].at(size_cost) <= envelope[first].at(size_cost))
      ++first;
    row.costs[at] = count_before_[at + 1] * size_cost + envelope[first].at(size_cost);
    row.from[at] = envelope[first].entry;
  }
  row.best = best_of(row.costs);
  return row;
}

ListPlan::Best ListPlan::best_of(const std::vector<double>& costs) const {
  Best best;
  for (std::size_t last = covers_ ? costs.size() - 1 : 0; last < costs.size(); ++last) {
    const double cost = costs[last] + own_before_[last + 1] + miss_from_[last + 1];
    if (cost < best.cost) best = {cost, last};
  }
  return best;
}

std::vector<std::uint32_t> ListPlan::sizes(std::size_t count, std::size_t last) const {
  std::vector<std::uint32_t> found;
  for (; count > 0; --count) {
    found.push_back(entries_[last].tokens);
    last = rows_[count - 1].from[last];
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace attacca::planner
