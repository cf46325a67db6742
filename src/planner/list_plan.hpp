// list_plan.hpp: the best sizes of one list of graphs, for every number of sizes, by dynamic
// programming. Only sizes of steps that were seen are tried: any other can be lowered to the next
// of them, and no step then costs more.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace attacca::planner {

/// Steps of one size.
struct Entry {
  std::uint32_t tokens;
  double count;
  double size_cost;  // one step pays this for a graph of `tokens`; larger graphs cost no less
  double own_cost;   // of all these steps, whatever their graph
  double miss_cost;  // of all these steps, if they have no graph
};

class ListPlan {
 public:
  /// The least cost of all steps, and the entry of the largest size.
  struct Best {
    double cost = std::numeric_limits<double>::infinity();
    std::size_t last = 0;
  };

  /// `entries`: ascending by tokens. Only the last may have a count of 0. `covers`: the last entry
  /// must be a size; else steps above the largest size have no graph.
  ListPlan(std::vector<Entry> entries, std::size_t most_sizes, bool covers);

  std::size_t most_sizes() const { return rows_.size(); }
  std::size_t entry_count() const { return entries_.size(); }

  /// The cost of all steps up to entry `last`, if it is the largest of `count` sizes. Infinite if
  /// there are not so many. REQUIRES: 1 <= count <= most_sizes.
  double cost_up_to(std::size_t count, std::size_t last) const {
    return rows_[count - 1].costs[last] + own_before_[last + 1];
  }
  /// With `count` sizes. REQUIRES: count <= most_sizes.
  const Best& best(std::size_t count) const { return count == 0 ? none_ : rows_[count - 1].best; }
  /// The sizes behind `cost_up_to`.
  std::vector<std::uint32_t> sizes(std::size_t count, std::size_t last) const;

 private:
  struct Row {
    std::vector<double> costs;        // by the entry of the largest size, without own costs
    std::vector<std::uint32_t> from;  // the entry of the next smaller size
    Best best;
  };
  Row first_row() const;
  Row row_after(const std::vector<double>& before, std::size_t count) const;
  Best best_of(const std::vector<double>& costs) const;

  std::vector<Entry> entries_;
  bool covers_;
  std::vector<double> count_before_, own_before_, miss_from_;  // [entries + 1]
  Best none_;
  std::vector<Row> rows_;  // by the number of sizes, from 1
};

}  // namespace attacca::planner
