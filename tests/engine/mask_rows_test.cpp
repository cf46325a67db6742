// Tests of the rows that masks have on the device.
#include "engine/mask_rows.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace attacca::engine {
namespace {

driver::MaskPtr mask() { return std::make_shared<const std::vector<std::uint32_t>>(1); }

TEST(MaskRows, equal_masks_share_a_row_and_are_sent_once) {
  MaskRows rows(4);
  const driver::MaskPtr one = mask(), two = mask();
  const auto first = rows.take(one), again = rows.take(one), other = rows.take(two);
  ASSERT_TRUE(first && again && other);
  EXPECT_TRUE(first->is_new);
  EXPECT_FALSE(again->is_new);
  EXPECT_EQ(first->row, again->row);
  EXPECT_NE(first->row, other->row);
  rows.release(first->row);
  rows.release(again->row);
  EXPECT_FALSE(rows.take(one)->is_new) << "nobody else has taken the row";
}

TEST(MaskRows, a_row_is_given_away_only_when_no_step_can_read_it) {
  MaskRows rows(1);
  const auto first = rows.take(mask());
  EXPECT_FALSE(rows.take(mask()));
  rows.release(first->row);
  EXPECT_FALSE(rows.take(mask())) << "a step in flight may read it";
  rows.end_step();
  EXPECT_FALSE(rows.take(mask())) << "so may the one behind it";
  rows.end_step();
  EXPECT_TRUE(rows.take(mask()));
  EXPECT_FALSE(rows.take(mask()));
}

TEST(MaskRows, rows_with_edges_stay_until_the_edges_are_forgotten) {
  MaskRows rows(2);
  const driver::MaskPtr from = mask(), to = mask();
  const auto a = rows.take(from), b = rows.take(to);
  rows.add_edge(a->row, b->row);
  rows.release(a->row);
  rows.move(b->row, b->row);
  rows.release(b->row);
  rows.end_all_steps();
  EXPECT_FALSE(rows.take(mask())) << "the sampler may go there without being told";
  rows.forget_edges();
  EXPECT_FALSE(rows.take(mask()));
  rows.end_all_steps();
  EXPECT_TRUE(rows.take(mask()));
  EXPECT_TRUE(rows.take(mask()));
}

TEST(MaskRows, no_row_is_ever_two_masks_at_once_and_none_is_lost) {
  std::mt19937 random(1);
  MaskRows rows(8);
  std::vector<driver::MaskPtr> masks;
  for (int at = 0; at < 20; ++at) masks.push_back(mask());
  std::vector<std::uint32_t> users;
  for (int round = 0; round < 20000; ++round) {
    const std::size_t some = users.empty() ? 0 : random() % users.size();
    switch (random() % 6) {
      case 0:
      case 1:
        if (const auto row = rows.take(masks[random() % masks.size()])) users.push_back(row->row);
        break;
      case 2:
        if (users.empty()) break;
        rows.release(users[some]);
        users.erase(users.begin() + static_cast<std::ptrdiff_t>(some));
        break;
      case 3:
        if (users.size() > 1) rows.add_edge(users[some], users[0]);
        break;
      case 4:
        rows.end_step();
        break;
      default:
        if (random() % 16 == 0) rows.forget_edges();
    }
    std::set<const void*> used;
    std::set<std::uint32_t> distinct(users.begin(), users.end());
    for (const std::uint32_t row : distinct) used.insert(rows.mask(row).get());
    ASSERT_EQ(used.size(), distinct.size());
  }
  for (const std::uint32_t row : users) rows.release(row);
  rows.forget_edges();
  rows.end_all_steps();
  for (std::uint32_t row = 0; row < rows.size(); ++row) EXPECT_TRUE(rows.take(mask()));
}

}  // namespace
}  // namespace attacca::engine
