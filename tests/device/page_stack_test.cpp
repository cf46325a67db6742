// Tests of PageStack: a page has one owner, several are taken all or none, and none is lost. Tests
// under a relaxed memory model are in tests/relacy.
#include <gmock/gmock.h>
#include <attacca/device/page_stack.hpp>
#include <attacca/error.hpp>

#include <algorithm>
#include <set>

#include "support/on_each_device.hpp"
#include "support/page_kernels.hpp"
#include "support/real_threads.hpp"
#include "support/seeded.hpp"

namespace attacca::test {
namespace {

using attacca::device::Give;
using attacca::device::PageStack;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Four threads take 1 … 4 of `pages` at a time. With 16 or more pages they always succeed.
void expect_shared(std::uint32_t pages) {
  SCOPED_TRACE(testing::Message() << pages << " pages");
  constexpr std::uint32_t kRounds = 50'000 / kSlowdown;
  const PageStack stack(Device::host_serial(), pages);
  std::vector<unsigned> uses(pages);  // counted plainly: a page with two owners is a race
  std::vector<std::size_t> taken(4);
  run_threads(4, [&](unsigned thread) {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint32_t count = 1 + (round * 7 + thread) % 4;
      std::uint32_t mine[4];
      if (!stack.ref().take(mine, count)) {
        ASSERT_LT(pages, 16u) << "there were enough";
        continue;
      }
      for (std::uint32_t at = 0; at < count; ++at) ++uses.at(mine[at]);
      taken[thread] += count;
      if (round % 2) std::swap(mine[0], mine[count - 1]);
      const std::uint32_t first = round % 3 ? count : count / 2;
      ASSERT_EQ(stack.ref().give(mine, first), Give::done);
      ASSERT_EQ(stack.ref().give(mine + first, count - first), Give::done);
    }
  });
  std::size_t sum = 0;
  for (const unsigned count : uses) sum += count;
  EXPECT_EQ(sum, taken[0] + taken[1] + taken[2] + taken[3]);
  EXPECT_EQ(stack.count_free(), pages);
}

TEST(PageStack, threads_share_pages) {
  for (const std::uint32_t pages : {1u, 3u, 5u, 16u, 100u}) expect_shared(pages);
}

TEST(PageStack, follows_a_set) {
  EXPECT_TRUE(rc::check("a stack of pages follows a set", [] {
    const auto pages = *rc::gen::inRange<std::uint32_t>(1, 20);
    const auto steps = *rc::gen::container<std::vector<std::pair<bool, std::uint32_t>>>(
        rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::inRange(0u, 8u)));
    const PageStack stack(Device::host_serial(), pages);
    const auto ref = stack.ref();
    std::vector<std::uint32_t> taken;
    std::set<std::uint32_t> is_taken;
    for (const auto& [is_take, count] : steps) {
      std::uint32_t some[8];
      if (is_take) {
        const bool is_enough = pages - taken.size() >= count;
        RC_ASSERT(ref.take(some, count) == is_enough);
        for (std::uint32_t at = 0; is_enough && at < count; ++at) {
          RC_ASSERT(some[at] < pages);
          RC_ASSERT(is_taken.insert(some[at]).second);
          taken.push_back(some[at]);
        }
      } else if (taken.size() >= count) {
        std::copy(taken.begin(), taken.begin() + count, some);  // the oldest, not the newest
        taken.erase(taken.begin(), taken.begin() + count);
        for (std::uint32_t at = 0; at < count; ++at) is_taken.erase(some[at]);
        RC_ASSERT(ref.give(some, count) == Give::done);
      }
      RC_ASSERT(stack.count_free() == pages - taken.size());
    }
  }));
}

/// The answer that `give` must return: about the first page of the list that is wrong.
Give expected_of(const std::vector<std::uint32_t>& list, std::uint32_t pages,
                 const std::set<std::uint32_t>& is_taken) {
  std::set<std::uint32_t> seen;
  for (const std::uint32_t page : list) {
    if (page >= pages) return Give::not_a_page;
    if (is_taken.count(page) == 0) return Give::not_taken;
    if (!seen.insert(page).second) return Give::twice;
  }
  return Give::done;
}

TEST(PageStack, a_list_with_anything_wrong_in_it_gives_nothing) {
  EXPECT_TRUE(rc::check("a list is given whole or not at all", [] {
    const auto pages = *rc::gen::inRange<std::uint32_t>(1, 12);
    const auto first = *rc::gen::inRange<std::uint32_t>(0, pages + 1);
    const auto lists = *rc::gen::container<std::vector<std::vector<std::uint32_t>>>(
        rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 14)));
    const PageStack stack(Device::host_serial(), pages);
    std::vector<std::uint32_t> taken(first);
    RC_ASSERT(stack.ref().take(taken.data(), first));
    std::set<std::uint32_t> is_taken(taken.begin(), taken.end());
    for (const std::vector<std::uint32_t>& list : lists) {
      const Give expected = expected_of(list, pages, is_taken);
      const auto count = static_cast<std::uint32_t>(list.size());
      RC_ASSERT(stack.ref().give(list.data(), count) == expected);
      if (expected == Give::done)
        for (const std::uint32_t page : list) is_taken.erase(page);
      RC_ASSERT(stack.count_free() == pages - is_taken.size());
    }
  }));
}

TEST(PageStack, a_page_that_two_threads_give_comes_back_once) {
  constexpr std::uint32_t kRounds = 3'000 / kSlowdown;
  const PageStack stack(Device::host_serial(), 3);
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    std::uint32_t pages[2];
    ASSERT_TRUE(stack.ref().take(pages, 2));
    const std::uint32_t lists[2][2] = {{pages[0], pages[1]}, {pages[1], pages[0]}};
    Give answers[2] = {};
    run_threads(2, [&](unsigned thread) { answers[thread] = stack.ref().give(lists[thread], 2); });
    const auto done = std::count(answers, answers + 2, Give::done);
    ASSERT_LE(done, 1);
    ASSERT_EQ(stack.count_free(), done == 1 ? 3u : 1u) << "both or none";
    if (done == 1) continue;
    // Each thread stopped the other, so the pages are still taken.
    ASSERT_EQ(stack.ref().give(pages, 2), Give::done);
  }
}

TEST(PageStack, refuses_pages_that_are_not_taken_and_gives_back_none) {
  const PageStack stack(Device::host_serial(), 4);
  const auto ref = stack.ref();
  EXPECT_EQ(ref.pages(), 4u);
  std::uint32_t pages[4];
  EXPECT_FALSE(ref.take(pages, 5));
  ASSERT_TRUE(ref.take(pages, 2));
  EXPECT_EQ((std::vector<std::uint32_t>{pages[0], pages[1]}), (std::vector<std::uint32_t>{0, 1}))
      << "lowest on top";
  EXPECT_FALSE(ref.take(pages + 2, 3)) << "all or none";
  EXPECT_EQ(stack.count_free(), 2u);

  const std::uint32_t free_one[] = {0, 3}, no_page[] = {0, 4}, mark[] = {0xffffff, 0};
  EXPECT_EQ(ref.give(free_one, 2), Give::not_taken);
  EXPECT_EQ(ref.give(no_page, 2), Give::not_a_page);
  EXPECT_EQ(ref.give(mark, 2), Give::not_a_page);
  const std::uint32_t again[] = {0, 1, 0}, side_by_side[] = {1, 1}, late[] = {0, 1, 3, 0};
  EXPECT_EQ(ref.give(again, 3), Give::twice);
  EXPECT_EQ(ref.give(side_by_side, 2), Give::twice);
  EXPECT_EQ(ref.give(late, 4), Give::not_taken) << "the first that is wrong";
  EXPECT_EQ(stack.count_free(), 2u) << "none is given";
  EXPECT_EQ(ref.give(pages, 2), Give::done);
  EXPECT_EQ(ref.give(pages, 2), Give::not_taken) << "given already";
  EXPECT_EQ(stack.count_free(), 4u);
}

TEST(PageStack, refuses_what_it_cannot_be_made_of) {
  const Device device = Device::host_serial();
  for (const std::size_t pages : {std::size_t{0}, std::size_t{1} << 24})
    EXPECT_THAT([&] { PageStack(device, pages); },
                ThrowsMessage<BadArgument>(
                    AllOf(HasSubstr(std::to_string(pages) + " pages"), HasSubstr("use 1 to"))));
}

class DevicePageStack : public OnEachDevice {
 protected:
  /// `is_enough`: there are pages for all threads at once, so no thread may be refused.
  void expect_shared(const Grid& grid, std::uint32_t pages, std::uint32_t rounds,
                     std::uint32_t most, bool is_enough) {
    SCOPED_TRACE(testing::Message() << pages << " pages");
    const PageStack stack(device(), pages);
    const auto owners = buffer(std::vector<Cell>(pages));
    const auto uses = buffer(std::vector<std::uint32_t>(pages));
    const auto cells = buffer(std::vector<Cell>(3));
    stream().kernel(use_pages, grid,
                    {stack.ref(), owners.data(), uses.data(), cells.data(), cells.data() + 1,
                     cells.data() + 2, rounds, most, 1'000'000'000});
    stream().synchronize();
    const std::vector<Cell> results = cells.read();
    const std::uint32_t taken = results[0].load(device::relaxed);
    EXPECT_EQ(results[2].load(device::relaxed), 0u) << "wrong";
    EXPECT_TRUE(!is_enough || results[1].load(device::relaxed) == 0) << "refused";
    EXPECT_GT(taken, 0u);
    std::uint32_t sum = 0;
    for (const std::uint32_t count : uses.read()) sum += count;
    EXPECT_EQ(sum, taken) << "uses that were lost";
    EXPECT_EQ(stack.count_free(), pages);
  }
};
ATTACCA_ON_EACH_DEVICE(DevicePageStack);
class SmallDevicePageStack : public DevicePageStack {};
ATTACCA_ON_EACH_DEVICE(SmallDevicePageStack);

TEST_P(SmallDevicePageStack, threads_share_pages) {
  expect_shared(Grid{{2}, {64}}, 128 * 4, 5, 4, true);
  expect_shared(Grid{{2}, {64}}, 40, 5, 8, false);
}

TEST_P(DevicePageStack, threads_share_pages) {
  const Grid grid = is_cuda() ? Grid{{32}, {128}} : Grid{{8}, {32}};
  const auto threads = static_cast<std::uint32_t>(grid.blocks.count() * grid.threads.count());
  const std::uint32_t rounds = is_cuda() ? 200 : 100;
  expect_shared(grid, threads * 8, rounds, 8, true);
  expect_shared(grid, threads, rounds, 1, true);
  expect_shared(grid, 1000, rounds, 8, false);
  expect_shared(grid, 7, rounds, 8, false);
}

}  // namespace
}  // namespace attacca::test
