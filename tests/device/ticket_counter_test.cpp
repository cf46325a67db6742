// Tests of TicketCounter and LocalTickets: every ticket below the limit goes to one claimer,
// however many threads claim together. Tests under a relaxed memory model are in tests/relacy.
#include <attacca/device/ticket_counter.hpp>

#include <bit>
#include <cstring>

#include "support/on_each_device.hpp"
#include "support/real_threads.hpp"
#include "support/seeded.hpp"
#include "support/ticket_kernels.hpp"

namespace attacca::test {
namespace {

using attacca::device::LocalTickets;
using attacca::device::TicketCounter;
using attacca::device::Tickets;

/// Claims until there are none left, and counts how often each ticket came.
template <class Claim>
void claim_all(std::vector<unsigned>& counts, const Claim& claim) {
  while (const Tickets tickets = claim())
    for (std::uint32_t at = 0; at < tickets.count; ++at) ++counts.at(tickets.first + at);
}

/// Checks that `run(thread, its counts)`, in four threads, gives out each of `limit` tickets once.
template <class Run>
void expect_one_each(std::size_t limit, const Run& run) {
  std::vector<std::vector<unsigned>> counts(4, std::vector<unsigned>(limit));
  run_threads(4, [&](unsigned thread) { run(thread, counts[thread]); });
  for (std::size_t ticket = 0; ticket < limit; ++ticket)
    ASSERT_EQ(counts[0][ticket] + counts[1][ticket] + counts[2][ticket] + counts[3][ticket], 1u)
        << "ticket " << ticket;
}

TEST(TicketCounter, threads_claim_every_ticket_once) {
  constexpr std::size_t kLimit = 400'003 / kSlowdown;
  TicketCounter counter{};
  expect_one_each(kLimit, [&](unsigned thread, std::vector<unsigned>& counts) {
    claim_all(counts, [&]() -> Tickets {
      if (thread == 0) return counter.claim_each(kLimit);
      if (thread == 1) return counter.claim_together(3, kLimit);
      return counter.claim(thread, kLimit);
    });
  });
  EXPECT_GE(counter.claimed(), kLimit);
  counter.reset();
  EXPECT_EQ(counter.claim(5, 3).count, 3u) << "counts again from the start";
}

TEST(TicketCounter, threads_of_a_block_claim_every_ticket_once) {
  constexpr std::size_t kLimit = 200'003 / kSlowdown;
  TicketCounter counter{};
  LocalTickets<16> local;
  local.reset();
  expect_one_each(kLimit, [&](unsigned thread, std::vector<unsigned>& counts) {
    claim_all(counts, [&] { return local.claim(counter, 1 + thread * 2, kLimit); });
  });
}

TEST(TicketCounter, two_blocks_share_what_is_beyond_their_refills) {
  constexpr std::size_t kLimit = 200'003 / kSlowdown;
  TicketCounter counter{};
  LocalTickets<7> locals[2];
  for (auto& local : locals) local.reset();
  expect_one_each(kLimit, [&](unsigned thread, std::vector<unsigned>& counts) {
    claim_all(counts, [&] { return locals[thread % 2].claim_together(counter, 2, kLimit); });
  });
}

TEST(TicketCounter, a_refill_that_does_not_end_holds_nobody_up) {
  TicketCounter counter{};
  LocalTickets<16> local;
  local.reset();
  // A thread has taken the flag, which is behind the word, and got no further.
  const std::uint32_t is_refilling = 1;
  static_assert(std::is_trivially_copyable_v<LocalTickets<16>>);
  std::memcpy(reinterpret_cast<std::byte*>(&local) + sizeof(std::uint64_t), &is_refilling,
              sizeof is_refilling);
  EXPECT_EQ(local.claim(counter, 3, 100).count, 3u);
  EXPECT_EQ(local.claim(counter, 3, 5).count, 2u);
  EXPECT_EQ(local.claim(counter, 3, 5).count, 0u);
}

TEST(TicketCounter, claims_follow_a_number_that_grows) {
  EXPECT_TRUE(rc::check("claims follow a number that grows", [] {
    const auto limit = *rc::gen::inRange<std::uint64_t>(0, 200);
    const auto claims = *rc::gen::container<std::vector<std::pair<int, std::uint32_t>>>(
        rc::gen::pair(rc::gen::inRange(0, 3), rc::gen::inRange(0u, 20u)));
    TicketCounter counter{};
    std::uint64_t next = 0;
    for (const auto& [way, wanted] : claims) {
      const std::uint32_t count = way == 0 ? 1 : wanted;
      const Tickets tickets = way == 0   ? counter.claim_each(limit)
                              : way == 1 ? counter.claim(count, limit)
                                         : counter.claim_together(count, limit);
      const std::uint64_t end = std::min(next + count, limit);
      RC_ASSERT(tickets.count == (next < end ? end - next : 0));
      RC_ASSERT(tickets.first == next);
      next += count;
      RC_ASSERT(counter.claimed() == next);
    }
  }));
}

TEST(TicketCounter, local_claims_leave_no_gaps) {
  EXPECT_TRUE(rc::check("local claims leave no gaps", [] {
    constexpr std::uint32_t kRefill = 5;
    const auto limit = *rc::gen::inRange<std::uint64_t>(0, 60);
    const auto wanted = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange(1u, 9u));
    TicketCounter counter{};
    LocalTickets<kRefill> local;
    local.reset();
    std::uint64_t next = 0;
    for (const std::uint32_t count : wanted) {
      const Tickets tickets = local.claim(counter, count, limit);
      const std::uint64_t end = std::min({next + count, (next / kRefill + 1) * kRefill, limit});
      RC_ASSERT(tickets.count == (next < end ? end - next : 0));
      if (tickets) RC_ASSERT(tickets.first == next);
      next += tickets.count;
      RC_ASSERT(counter.claimed() >= next);
    }
  }));
}

class DeviceTickets : public OnEachDevice {
 protected:
  void expect_one_each(const Grid& grid, std::uint64_t limit, std::uint32_t batch,
                       bool has_second_level = true) {
    for (int way = 0; way < static_cast<int>(Claiming::count_of_all); ++way) {
      const bool uses_second_level = static_cast<Claiming>(way) == Claiming::two_levels ||
                                     static_cast<Claiming>(way) == Claiming::mixed;
      if (uses_second_level && !has_second_level) continue;
      SCOPED_TRACE(testing::Message() << "way " << way);
      const auto cells = [&](std::uint64_t count) { return buffer(std::vector<Cell>(count)); };
      const Buffer<Cell> warps = cells(limit), lanes = cells(limit), counts = cells(limit),
                         wrong = cells(1);
      const auto counter = buffer(std::vector<TicketCounter>(1));
      stream().kernel(claim_tickets, grid,
                      {counter.data(), warps.data(), lanes.data(), counts.data(), wrong.data(),
                       limit, batch, static_cast<Claiming>(way)});
      stream().synchronize();
      EXPECT_EQ(wrong.read().front().load(device::relaxed), 0u);
      EXPECT_GE(counter.read().front().claimed(), limit);
      const std::vector<Cell> told = counts.read(), by = lanes.read();
      for (std::uint64_t ticket = 0; ticket < limit; ++ticket) {
        const std::uint32_t bits = by[ticket].load(device::relaxed);
        ASSERT_NE(bits, 0u) << "ticket " << ticket << " went to nobody";
        ASSERT_EQ(told[ticket].load(device::relaxed), static_cast<unsigned>(std::popcount(bits)))
            << "ticket " << ticket << " went to somebody twice";
      }
    }
  }
};
ATTACCA_ON_EACH_DEVICE(DeviceTickets);
class SmallDeviceTickets : public DeviceTickets {};
ATTACCA_ON_EACH_DEVICE(SmallDeviceTickets);

// Without the second level, because racecheck treats strong loads and stores of shared memory as
// plain ones.
TEST_P(SmallDeviceTickets, each_goes_to_one_claimer) {
  expect_one_each(Grid{{2}, {96}}, 1000, 3, false);
  expect_one_each(Grid{{3}, {64}}, 10, 32, false);
}

TEST_P(DeviceTickets, each_goes_to_one_claimer) {
  expect_one_each(Grid{{2}, {96}}, 1000, 3);
  expect_one_each(Grid{{3}, {64}}, 10, 32);
  const std::uint64_t limit = is_cuda() ? 1'000'003 : 20'003;
  expect_one_each(Grid{{264}, {256}}, limit, 32);
  expect_one_each(Grid{{64}, {1024}}, limit, 1000);
}

}  // namespace
}  // namespace attacca::test
