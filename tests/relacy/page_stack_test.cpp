// Tests of PageStack under relacy: a page has one owner at a time, several are taken all or none,
// and a page that comes back while another thread looks at it is noticed (the ABA problem).
#include "relacy/relacy_memory.hpp"

namespace attacca::test {
namespace {

using device::Give;

/// A stack of `kPages`, and a value per page that only the page's owner touches.
template <Flaw kFlaw, std::uint32_t kPages>
struct Pages {
  using Memory = RelacyMemory<kFlaw>;
  using Ref = device::PageStackRef<Memory>;
  typename Ref::template Atomic<std::uint64_t> head;
  typename Ref::template Atomic<std::uint32_t> next[kPages];
  typename Memory::template Plain<unsigned> values[kPages];

  void reset() {
    head.store(0, device::relaxed);
    for (std::uint32_t page = 0; page < kPages; ++page) {
      next[page].store(page + 1 < kPages ? page + 1 : Ref::kBottom, device::relaxed);
      values[page].write(0);
    }
  }
  Ref ref() { return Ref(&head, next, kPages); }

  /// Writes to the pages as their owner.
  void use(const std::uint32_t* pages, std::uint32_t count, unsigned mark) {
    for (std::uint32_t at = 0; at < count; ++at) {
      RL_ASSERT(pages[at] < kPages);
      values[pages[at]].write(values[pages[at]].read() + mark);
    }
    for (std::uint32_t at = 0; at < count; ++at)
      for (std::uint32_t other = 0; other < at; ++other) RL_ASSERT(pages[at] != pages[other]);
  }
  void expect_all_free() {
    std::uint32_t all[kPages] = {};
    RL_ASSERT(ref().take(all, kPages));
    use(all, kPages, 0);
    RL_ASSERT(!ref().take(all, 1));
  }
};

/// Each of three threads takes a page of three twice, which always succeeds.
template <Flaw kFlaw>
struct TakenByOne : rl::test_suite<TakenByOne<kFlaw>, 3> {
  Pages<kFlaw, 3> pages;
  void before() { pages.reset(); }
  void thread(unsigned) {
    for (int round = 0; round < 2; ++round) {
      std::uint32_t page = 0;
      RL_ASSERT(pages.ref().take(&page, 1));
      pages.use(&page, 1, 1);
      RL_ASSERT(pages.ref().give(&page, 1) == Give::done);
    }
  }
  void after() { pages.expect_all_free(); }
};

/// Two threads take two of `kPages` each; a third takes one. With five pages all succeed.
template <Flaw kFlaw, std::uint32_t kPages>
struct TakenByTwos : rl::test_suite<TakenByTwos<kFlaw, kPages>, 3> {
  Pages<kFlaw, kPages> pages;
  void before() { pages.reset(); }
  void thread(unsigned index) {
    const std::uint32_t count = index < 2 ? 2 : 1;
    std::uint32_t taken[2] = {};
    const bool is_taken = pages.ref().take(taken, count);
    RL_ASSERT(is_taken || kPages < 5);
    if (!is_taken) return;
    pages.use(taken, count, 1);
    if (count == 2) std::swap(taken[0], taken[1]);
    RL_ASSERT(pages.ref().give(taken, count) == Give::done);
  }
  void after() { pages.expect_all_free(); }
};

/// Thread 0 takes the top. Thread 1 takes two and gives the first back, so the top looks as before
/// but the page under it has changed. Then both take one more; there are always enough.
template <Flaw kFlaw>
struct GivenBackMeanwhile : rl::test_suite<GivenBackMeanwhile<kFlaw>, 2> {
  Pages<kFlaw, 4> pages;
  void before() { pages.reset(); }
  void thread(unsigned index) {
    std::uint32_t taken[2] = {};
    take(taken, 1 + index);
    if (index == 1) RL_ASSERT(pages.ref().give(taken, 1) == Give::done);
    std::uint32_t more = 0;
    take(&more, 1);
    RL_ASSERT(pages.ref().give(&more, 1) == Give::done);
    RL_ASSERT(pages.ref().give(taken + index, 1) == Give::done);
  }
  void take(std::uint32_t* into, std::uint32_t count) {
    RL_ASSERT(pages.ref().take(into, count));
    pages.use(into, count, 1);
  }
  void after() { pages.expect_all_free(); }
};

/// Two threads wrongly give the same two pages, in opposite order, while another takes and gives
/// the third correctly. A list goes back whole or not at all.
struct GivenByTwo : rl::test_suite<GivenByTwo, 3> {
  Pages<Flaw::none, 3> pages;
  bool is_given[2] = {};
  void before() {
    pages.reset();
    std::uint32_t both[2] = {};
    RL_ASSERT(pages.ref().take(both, 2) && both[0] == 0 && both[1] == 1);
    is_given[0] = is_given[1] = false;
  }
  void thread(unsigned index) {
    if (index == 2) {
      std::uint32_t page = 0;
      RL_ASSERT(pages.ref().take(&page, 1));
      RL_ASSERT(pages.ref().give(&page, 1) == Give::done);
      return;
    }
    const std::uint32_t list[2] = {index, 1 - index};
    const Give answer = pages.ref().give(list, 2);
    RL_ASSERT(answer == Give::done || answer == Give::not_taken);
    is_given[index] = answer == Give::done;
  }
  void after() {
    RL_ASSERT(!(is_given[0] && is_given[1]));
    const std::uint32_t both[2] = {0, 1};
    if (!is_given[0] && !is_given[1]) RL_ASSERT(pages.ref().give(both, 2) == Give::done);
    pages.expect_all_free();
  }
};

TEST(RelacyPageStack, a_list_that_two_threads_give_goes_back_once_and_whole) {
  EXPECT_TRUE(holds_at_random<GivenByTwo>(100'000));
  EXPECT_TRUE(holds_for_all<GivenByTwo>(3));
}

TEST(RelacyPageStack, a_page_has_one_owner) {
  EXPECT_TRUE(holds_at_random<TakenByOne<Flaw::none>>(100'000));
  EXPECT_TRUE(holds_for_all<TakenByOne<Flaw::none>>(2));
  EXPECT_TRUE(is_caught<TakenByOne<Flaw::no_release>>());
  EXPECT_TRUE(is_caught<TakenByOne<Flaw::no_acquire>>());
}

TEST(RelacyPageStack, several_are_taken_all_or_none) {
  EXPECT_TRUE((holds_at_random<TakenByTwos<Flaw::none, 3>>(100'000)));
  EXPECT_TRUE((holds_at_random<TakenByTwos<Flaw::none, 5>>(100'000)));
  EXPECT_TRUE((holds_for_all<TakenByTwos<Flaw::none, 3>>(2)));
  EXPECT_TRUE((is_caught<TakenByTwos<Flaw::no_release, 3>>()));
  EXPECT_TRUE((is_caught<TakenByTwos<Flaw::no_acquire, 3>>()));
}

TEST(RelacyPageStack, a_page_that_came_back_is_not_taken_for_itself) {
  EXPECT_TRUE(holds_at_random<GivenBackMeanwhile<Flaw::none>>(100'000));
  EXPECT_TRUE(holds_for_all<GivenBackMeanwhile<Flaw::none>>(3));
  EXPECT_FALSE(holds_for_all<GivenBackMeanwhile<Flaw::no_tag>>(3));
}

}  // namespace
}  // namespace attacca::test
