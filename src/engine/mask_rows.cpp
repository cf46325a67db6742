// mask_rows.cpp: the row that is free for longest is given away first.
#include "engine/mask_rows.hpp"

namespace attacca::engine {

MaskRows::MaskRows(std::uint32_t rows) : rows_(rows) {
  for (std::uint32_t row = 0; row < rows; ++row) free_.push_back({row, 0});
}

std::optional<MaskRows::Row> MaskRows::take(const driver::MaskPtr& mask) {
  if (const auto known = row_of_.find(mask.get()); known != row_of_.end()) {
    Kept& kept = rows_[known->second];
    ++kept.users;
    kept.free_from = kBusy;
    return Row{known->second, false};
  }
  while (!free_.empty()) {
    const Free next = free_.front();
    Kept& kept = rows_[next.row];
    if (kept.free_from == next.from && next.from > steps_) return std::nullopt;
    free_.pop_front();
    if (kept.free_from != next.from) continue;
    if (kept.mask) row_of_.erase(kept.mask.get());
    kept = {mask, 1, false, kBusy};
    row_of_[mask.get()] = next.row;
    return Row{next.row, true};
  }
  return std::nullopt;
}

void MaskRows::release(std::uint32_t row) {
  --rows_[row].users;
  look_whether_free(row);
}

void MaskRows::move(std::uint32_t from, std::uint32_t to) {
  ++rows_[to].users;
  rows_[to].free_from = kBusy;
  release(from);
}

void MaskRows::add_edge(std::uint32_t from, std::uint32_t to) {
  for (const std::uint32_t row : {from, to}) {
    rows_[row].has_edges = true;
    rows_[row].free_from = kBusy;
  }
}

void MaskRows::forget_edges() {
  for (std::uint32_t row = 0; row < rows_.size(); ++row) {
    if (!rows_[row].has_edges) continue;
    rows_[row].has_edges = false;
    look_whether_free(row);
  }
}

void MaskRows::look_whether_free(std::uint32_t row) {
  Kept& kept = rows_[row];
  if (kept.users > 0 || kept.has_edges) return;
  kept.free_from = steps_ + kStepsToWait;
  free_.push_back({row, kept.free_from});
}

}  // namespace attacca::engine
