// nvshmem_fake.cpp: NVSHMEM's group over a fake of the library (fake_nvshmem.cpp), whose memory is
// the host's. It shows that attacca starts NVSHMEM with the right numbers and what its own kernels
// do with the memory; the rest is for tests on GPUs. Exchanges run in graphs.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <optional>

#include "comm/conformance.hpp"
#include "comm/device_program.hpp"
#include "comm/nvshmem/group.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::chrono::seconds kShort(2);

class Rank {
 public:
  explicit Rank(const Group& control)
      : device(Device::host(1)),
        group(comm::Access::group(comm::join_nvshmem(comm::Access::impl(control), device))),
        stream(device) {}

  void run(const Exchange& exchange) {
    Graph graph(device, "one");
    exchange.add_to(graph);
    Exec exec = graph.instantiate();
    exec.launch(stream);
    stream.synchronize();
  }

  Device device;
  Group group;
  Stream stream;
};

void on_ranks(int ranks, const std::function<void(Rank&)>& body) {
  run_loopback(ranks, [&](const Group& group) {
    Rank rank(group);
    body(rank);
    group.barrier().run();  // nobody's memory goes while others use it
  });
}

TEST(Nvshmem, names_its_version) {
  EXPECT_TRUE(has_nvshmem());
  EXPECT_EQ(describe_nvshmem(), "NVSHMEM 3.4.5");
}

TEST(Nvshmem, collectives_add_in_the_order_of_ranks) {
  for (const int ranks : {1, 2, 3, 4})
    on_ranks(ranks, [](Rank& rank) {
      const Group& group = rank.group;
      const auto n = static_cast<std::size_t>(group.size());
      const auto own = static_cast<std::size_t>(group.rank());
      // The last one goes in several pieces.
      for (const std::size_t count : {std::size_t{1}, std::size_t{4097}, std::size_t{2'500'001}}) {
        if (count > 5000 && group.size() != 2) continue;
        std::vector<float> from = values_of(group.rank(), count), to(count);
        rank.run(group.all_reduce<float>(from, std::span(to)));
        ASSERT_EQ(to, sum_over(group.size(), count));
        rank.run(group.all_reduce(std::span(from)));
        ASSERT_EQ(from, to) << "in place";
        std::vector<float> given = values_of(group.rank(), count);
        rank.run(group.broadcast(std::span(given), group.size() - 1));
        ASSERT_EQ(given, values_of(group.size() - 1, count));
        std::vector<float> all(count * n), expected;
        for (int other = 0; other < group.size(); ++other)
          for (const float value : values_of(other, count)) expected.push_back(value);
        rank.run(group.all_gather<float>(values_of(group.rank(), count), std::span(all)));
        ASSERT_EQ(all, expected);
        const std::vector<float> wide = values_of(group.rank(), count * n);
        rank.run(group.reduce_scatter<float>(wide, std::span(to)));
        ASSERT_EQ(to, sum_over(group.size(), count, own * count));
      }
      rank.run(group.barrier());
    });
}

TEST(Nvshmem, random_programs_give_what_the_interpreter_gives) {
  for (const int ranks : {1, 2, 3, 4})
    on_ranks(ranks, [](Rank& rank) {
      programs_give_what_the_interpreter_gives(rank.device, rank.group, 50);
    });
}

TEST(Nvshmem, a_wait_that_sees_the_signal_sees_the_data) {
  on_ranks(3, [](Rank& rank) {
    const Group& group = rank.group;
    const int next = (group.rank() + 1) % 3, before = (group.rank() + 2) % 3;
    const SymmetricBuffer<float> inbox = group.symmetric<float>(1001);
    const SymmetricBuffer<std::uint64_t> signal = group.symmetric<std::uint64_t>(1);
    for (int round = 1; round <= 5; ++round) {
      const auto turn = static_cast<std::uint64_t>(round);
      const std::vector<float> own = values_of(group.rank() + round, 1001);
      rank.run(group.put_signal<float>(inbox.span(), own, next, signal.data(), turn));
      rank.run(group.wait(signal.data(), turn, before));
      EXPECT_EQ(std::vector<float>(inbox.data(), inbox.data() + 1001),
                values_of(before + round, 1001));
      rank.run(group.barrier());  // all have read
    }
  });
}

TEST(Nvshmem, puts_gets_and_counters_reach_any_rank) {
  on_ranks(3, [](Rank& rank) {
    const Group& group = rank.group;
    const SymmetricBuffer<int> table = group.symmetric<int>(3);
    const SymmetricBuffer<std::uint64_t> counter = group.symmetric<std::uint64_t>(1);
    const auto own = static_cast<std::size_t>(group.rank());
    for (int to = 0; to < 3; ++to) {
      const int value = 10 * group.rank() + to;
      rank.run(group.put<int>(table.span().subspan(own, 1), std::span(&value, 1), to));
    }
    std::uint64_t number = 0;
    rank.run(group.fetch_add(counter.data(), 1, 2, &number));
    rank.run(group.barrier());
    std::vector<int> row(3);
    rank.run(group.get<int>(std::span(row), table.span(), 1));
    EXPECT_EQ(row, (std::vector<int>{1, 11, 21}));
    std::vector<std::uint64_t> all(3);
    rank.run(group.all_gather<std::uint64_t>(std::span(&number, 1), std::span(all)));
    EXPECT_THAT(all, testing::UnorderedElementsAre(0u, 1u, 2u));
  });
}

TEST(Nvshmem, a_signal_that_nobody_sets_ends_the_wait_with_the_rank_that_should) {
  const RanksOptions options{.deadline = kShort};
  run_loopback(
      2,
      [](const Group& group) {
        Rank rank(group);
        const auto signal = rank.group.symmetric<std::uint64_t>(1);
        if (group.rank() == 0) {
          EXPECT_THAT([&] { rank.run(rank.group.wait(signal.data(), 3, 1)); },
                      testing::ThrowsMessage<WaitOverdue>(
                          AllOf(HasSubstr("for rank 1"), HasSubstr("wanted 3 and saw 0"))));
        }
      },
      options);
}

/// While it lives, neither a start nor an end of NVSHMEM returns.
struct Held {
  Held() { call("fakeNvshmemHold"); }
  ~Held() { call("fakeNvshmemRelease"); }
  Held(const Held&) = delete;
  static void call(const char* name) {
    static void* const fake = dlopen("libnvshmem_host.so.3", RTLD_NOW);
    reinterpret_cast<void (*)()>(dlsym(fake, name))();
  }
};

TEST(Nvshmem, a_start_that_does_not_end_is_given_up_at_the_deadline) {
  const Held held;
  EXPECT_THAT(
      [] { run_loopback(2, [](const Group& group) { Rank rank(group); }, {.deadline = kShort}); },
      testing::ThrowsMessage<RanksBroken>(
          testing::MatchesRegex("NVSHMEM's start did not end on rank [01] within 2 s")));
}

TEST(Nvshmem, an_end_that_does_not_end_is_given_up_at_the_deadline) {
  std::optional<Held> held;
  run_loopback(2,
               [&](const Group& group) {
                 const Rank rank(group);
                 group.barrier().run();
                 if (group.rank() == 0) held.emplace();
                 group.barrier().run();
               },
               {.deadline = kShort});
}

TEST(Nvshmem, what_differs_or_is_not_there_is_named) {
  const auto told = [](int ranks, const std::function<void(Rank&)>& body) -> std::string {
    try {
      on_ranks(ranks, body);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(told(2,
                   [](Rank& rank) {
                     std::vector<int> x(rank.group.rank() == 0 ? 3 : 4);
                     rank.run(rank.group.all_reduce(std::span(x)));
                   }),
              AllOf(HasSubstr("rank 0 called all-reduce of 3 i32"), HasSubstr("rank 1 called")));
  EXPECT_THAT(told(5, [](Rank&) {}),
              AllOf(HasSubstr("rank 0: NVSHMEM does not start, error 7"), HasSubstr("need MPS")));
  on_ranks(2, [](Rank& rank) {
    std::vector<int> x(3);
    const int other = 1 - rank.group.rank();
    EXPECT_THAT([&] { rank.run(rank.group.send(std::span(x), other)); },
                testing::ThrowsMessage<BadArgument>(HasSubstr("NVSHMEM has no send")));
    EXPECT_THAT(
        [&] {
          rank.group.subgroup({0, 1});
        },
        testing::ThrowsMessage<BadArgument>(HasSubstr("no subgroups")));
    EXPECT_THAT([&] { rank.group.on(Device::host(1), Transport::nvshmem); },
                testing::ThrowsMessage<BadArgument>(HasSubstr("NVSHMEM moves memory of GPUs")));
  });
}

}  // namespace
}  // namespace attacca::test
