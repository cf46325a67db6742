// mask_rows.hpp: which masks lie in which rows of the device's memory. A row stays what it is while
// a request uses it or an edge of kernels/sample/mask_edges.hpp begins or ends there.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "driver/slot_sampling.hpp"

namespace attacca::engine {

/// Not thread-safe.
class MaskRows {
 public:
  explicit MaskRows(std::uint32_t rows);

  struct Row {
    std::uint32_t row;
    bool is_new;  // the mask is not there yet
  };
  /// A row for one more user of a mask. Nothing: none is free. Then edges should be forgotten; rows
  /// become free when the steps have ended that may read them.
  std::optional<Row> take(const driver::MaskPtr& mask);
  void release(std::uint32_t row);
  std::uint32_t size() const { return static_cast<std::uint32_t>(rows_.size()); }
  const driver::MaskPtr& mask(std::uint32_t row) const { return rows_[row].mask; }
  /// A user goes on along an edge.
  void move(std::uint32_t from, std::uint32_t to);
  void add_edge(std::uint32_t from, std::uint32_t to);
  /// Steps in flight may have followed some.
  void forget_edges();

  /// The oldest step in flight has ended.
  void end_step() { ++steps_; }
  /// All have.
  void end_all_steps() { steps_ += kStepsToWait; }

 private:
  // The step whose end is told next, and the one behind it.
  static constexpr std::uint64_t kStepsToWait = 2;

  struct Kept {
    driver::MaskPtr mask;
    std::uint32_t users = 0;
    bool has_edges = false;
    std::uint64_t free_from = 0;  // the count of steps; kBusy: not free
  };
  static constexpr std::uint64_t kBusy = ~std::uint64_t{0};
  void look_whether_free(std::uint32_t row);

  std::vector<Kept> rows_;
  std::unordered_map<const void*, std::uint32_t> row_of_;
  struct Free {
    std::uint32_t row;
    std::uint64_t from;
  };
  std::deque<Free> free_;  // by time; void where a row has another `free_from`
  std::uint64_t steps_ = 0;
};

}  // namespace attacca::engine
