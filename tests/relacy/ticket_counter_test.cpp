// Tests of TicketCounter and LocalTickets under relacy: every ticket below the limit goes to one
// claimer.
#include "relacy/relacy_memory.hpp"

namespace attacca::test {
namespace {

using device::Tickets;

/// How often each ticket was claimed. Not atomic, because relacy's threads never run at the same
/// time.
template <std::uint64_t kLimit>
struct Tally {
  unsigned counts[kLimit] = {};
  void add(const Tickets& tickets) {
    RL_ASSERT(tickets.first + tickets.count <= kLimit);
    for (std::uint32_t at = 0; at < tickets.count; ++at) ++counts[tickets.first + at];
  }
  void expect_one_each() const {
    for (const unsigned count : counts) RL_ASSERT(count == 1);
  }
};

/// Three threads claim one, two and three at a time.
template <Flaw kFlaw>
struct Claimed : rl::test_suite<Claimed<kFlaw>, 3> {
  static constexpr std::uint64_t kLimit = 7;
  device::BasicTicketCounter<RelacyMemory<kFlaw>> counter;
  Tally<kLimit> tally;

  void before() { counter.reset(); }
  void thread(unsigned index) {
    while (const Tickets tickets =
               index == 0 ? counter.claim_each(kLimit) : counter.claim_together(index + 1, kLimit))
      tally.add(tickets);
  }
  void after() {
    tally.expect_one_each();
    RL_ASSERT(counter.claimed() >= kLimit);
  }
};

/// Three threads of a block share refills of `kRefill`.
template <Flaw kFlaw, std::uint32_t kRefill>
struct ClaimedLocally : rl::test_suite<ClaimedLocally<kFlaw, kRefill>, 3> {
  static constexpr std::uint64_t kLimit = 5;
  using Memory = RelacyMemory<kFlaw>;
  device::BasicTicketCounter<Memory> counter;
  device::BasicLocalTickets<kRefill, Memory> local;
  Tally<kLimit> tally;

  void before() {
    counter.reset();
    local.reset();
  }
  void thread(unsigned index) {
    while (const Tickets tickets = local.claim(counter, 1 + index % 2, kLimit)) tally.add(tickets);
  }
  void after() { tally.expect_one_each(); }
};

/// Two blocks of one thread, each with refills of its own, and a thread that uses the counter
/// itself.
template <Flaw kFlaw>
struct ClaimedByBlocks : rl::test_suite<ClaimedByBlocks<kFlaw>, 3> {
  static constexpr std::uint64_t kLimit = 7;
  using Memory = RelacyMemory<kFlaw>;
  device::BasicTicketCounter<Memory> counter;
  device::BasicLocalTickets<2, Memory> locals[2];
  Tally<kLimit> tally;

  void before() {
    counter.reset();
    for (auto& local : locals) local.reset();
  }
  void thread(unsigned index) {
    const auto claim = [&] {
      return index == 2 ? counter.claim(1, kLimit) : locals[index].claim(counter, 1, kLimit);
    };
    while (const Tickets tickets = claim()) tally.add(tickets);
  }
  void after() { tally.expect_one_each(); }
};

TEST(RelacyTicketCounter, every_ticket_goes_to_one_claimer) {
  EXPECT_TRUE(holds_at_random<Claimed<Flaw::none>>(50'000));
  EXPECT_TRUE(holds_for_all<Claimed<Flaw::none>>());
  EXPECT_TRUE(is_caught<Claimed<Flaw::torn_add>>());
}

TEST(RelacyTicketCounter, threads_of_a_block_share_refills) {
  EXPECT_TRUE((holds_at_random<ClaimedLocally<Flaw::none, 2>>(100'000)));
  EXPECT_TRUE((holds_at_random<ClaimedLocally<Flaw::none, 3>>(100'000)));
  EXPECT_TRUE((holds_for_all<ClaimedLocally<Flaw::none, 3>>(2)));
  EXPECT_TRUE((is_caught<ClaimedLocally<Flaw::no_release, 2>>()));
  EXPECT_TRUE((is_caught<ClaimedLocally<Flaw::no_acquire, 2>>()));
  EXPECT_TRUE((is_caught<ClaimedLocally<Flaw::torn_add, 2>>()));
}

TEST(RelacyTicketCounter, blocks_share_a_counter) {
  EXPECT_TRUE(holds_at_random<ClaimedByBlocks<Flaw::none>>(50'000));
  EXPECT_TRUE(is_caught<ClaimedByBlocks<Flaw::torn_add>>());
}

}  // namespace
}  // namespace attacca::test
