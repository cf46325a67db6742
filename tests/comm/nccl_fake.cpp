// nccl_fake.cpp: the conformance cases on NCCL's group over a fake of the library (fake_nccl.cpp),
// and what it refuses. It shows that attacca calls NCCL with the right numbers, in the right order;
// whether NCCL does the rest is for tests on GPUs.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <mutex>
#include <optional>
#include <thread>

#include "comm/compare.hpp"
#include "comm/conformance.hpp"
#include "comm/device_program.hpp"
#include "comm/nccl/group.hpp"
#include "comm/nccl/watch.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// The public face refuses host devices, which the fake works with.
Group with_fake(const Group& group, const Device& device = Device::host(1)) {
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  std::iota(all.begin(), all.end(), 0);
  return comm::Access::group(comm::join_nccl(comm::Access::impl(group.subgroup(all)), device));
}

constexpr std::chrono::milliseconds kShort(2000);  // for tests in which it passes
constexpr std::chrono::seconds kLong(60);          // for those in which it must not

std::string told_within(std::chrono::nanoseconds deadline, int ranks,
                        const std::function<void(const Group&)>& body) {
  try {
    run_loopback(ranks, body, {.deadline = deadline});
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}
std::string told(int ranks, const std::function<void(const Group&)>& body) {
  return told_within(kLong, ranks, [&](const Group& group) { body(with_fake(group)); });
}

class NcclConformance : public testing::TestWithParam<ConformanceCase> {};

TEST_P(NcclConformance, holds_for_one_to_four_ranks) {
  for (const int ranks : {1, 2, 3, 4})
    run_loopback(ranks, [&](const Group& group) { GetParam().run(with_fake(group)); });
}
INSTANTIATE_TEST_SUITE_P(Fake, NcclConformance, testing::ValuesIn(kCollectives),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(Nccl, sends_arrive_in_order) {
  run_loopback(3, [](const Group& group) { sends_arrive_in_order(with_fake(group)); });
}

TEST(Nccl, random_programs_give_what_the_interpreter_gives) {
  for (const int ranks : {1, 2, 3, 4})
    run_loopback(ranks, [](const Group& group) {
      const Device device = Device::host(1);
      const Group fake = with_fake(group, device);
      ProgramKinds kinds = kinds_of(fake);
      std::erase(kinds.ways, Way::on_a_stream);  // the fake does not wait for a stream's work
      programs_give_what_the_interpreter_gives(device, fake, 50, kinds);
    });
}

TEST(Nccl, names_its_version) {
  EXPECT_TRUE(has_nccl());
  EXPECT_EQ(describe_nccl(),
            "NCCL 2.28.3, for one rank on each GPU; for more on one install 2.30 or later");
}

TEST(Nccl, exchanges_that_differ_are_named_before_nccl_hears_of_them) {
  const std::string message = told(2, [](const Group& group) {
    std::vector<float> x(group.rank() == 0 ? 4 : 5);
    group.all_reduce(std::span(x)).run();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0 called all-reduce of 4 f32, sum"),
                             HasSubstr("rank 1 called all-reduce of 5 f32, sum")));
}

/// What rank 0 is told, by its launch and later ones, if rank 1 agrees to an exchange and then does
/// something else than to call NCCL.
std::vector<std::string> told_instead_of_a_call(std::chrono::nanoseconds deadline,
                                                const std::function<void(const Group&)>& instead) {
  std::vector<std::string> messages;
  run_loopback(2,
               [&](const Group& group) {
                 const auto control = comm::Access::impl(group.subgroup({0, 1}));
                 const Device device = Device::host(1);
                 const Group there = comm::Access::group(comm::join_nccl(control, device));
                 if (group.rank() == 1) {
                   comm::ExchangeData barrier;
                   barrier.descriptor.operation = comm::Operation::barrier;
                   barrier.descriptor.set_name("barrier");
                   comm::compare_on_host(*control, barrier);  // when it has a graph
                   comm::compare_on_host(*control, barrier);  // before its call
                   return instead(group);
                 }
                 Graph graph(device, "step");
                 there.barrier().add_to(graph);
                 Exec exec = graph.instantiate();
                 const Stream stream(device);
                 for (int launch = 0; launch < 2; ++launch) try {
                     exec.launch(stream);
                     stream.synchronize();
                   } catch (const RanksBroken& error) {
                     messages.emplace_back(error.what());
                   }
               },
               {.deadline = deadline});
  return messages;
}

TEST(Nccl, a_call_that_waits_for_a_rank_that_gave_up_ends_with_its_reason) {
  const auto messages =
      told_instead_of_a_call(kLong, [](const Group& group) { group.give_up("its disk is full"); });
  EXPECT_EQ(messages, std::vector<std::string>(2, "rank 1 gave up: its disk is full"));
}

TEST(Nccl, a_call_that_waits_for_a_rank_that_stalls_ends_at_the_deadline) {
  const auto messages = told_instead_of_a_call(kShort, [](const Group& group) {
    const auto wait = [&] {
      for (;; std::this_thread::yield()) group.check();
    };
    EXPECT_THROW(wait(), RanksBroken);
  });
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("rank 1 launched 1 exchanges through NCCL"),
                                   HasSubstr("others up to 2"), HasSubstr("within 2 s"))));
}

/// On a GPU that ranks share, to bring a graph to it may wait for a kernel that waits for this
/// rank.
TEST(Nccl, no_rank_has_its_graph_before_all_have_theirs) {
  std::atomic<bool> has_all = false;
  run_loopback(2, [&](const Group& group) {
    const Device device = Device::host(1);
    const Group there = with_fake(group, device);
    Graph graph(device, "step");
    there.barrier().add_to(graph);
    if (group.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      has_all = true;
    }
    const Exec exec = graph.instantiate();
    EXPECT_TRUE(has_all);
  });
}

/// A function that only the fake has.
template <class... Args>
void call_fake(const char* name, Args... args) {
  static void* const fake = dlopen("libnccl.so.2", RTLD_NOW);
  reinterpret_cast<void (*)(Args...)>(dlsym(fake, name))(args...);
}

/// Makes the fake's collectives take so long until they look at their communicator.
struct Delay {
  explicit Delay(int milliseconds) { call_fake("fakeNcclDelay", milliseconds); }
  ~Delay() { call_fake("fakeNcclDelay", 0); }
  Delay(const Delay&) = delete;
};
/// While it lives no abort returns.
struct HeldAborts {
  HeldAborts() { call_fake("fakeNcclHoldAborts"); }
  ~HeldAborts() { call_fake("fakeNcclReleaseAborts"); }
  HeldAborts(const HeldAborts&) = delete;
};

TEST(Nccl, a_communicator_is_not_aborted_while_a_call_begins) {
  const Delay delay(600);  // the watch looks every 250 ms
  const auto messages =
      told_instead_of_a_call(kLong, [](const Group& group) { group.give_up("its disk is full"); });
  EXPECT_EQ(messages, std::vector<std::string>(2, "rank 1 gave up: its disk is full"));
}

/// Where ranks are threads, NCCL's abort waits for the graphs of all of them, and a stream of one
/// rank may own the graph of another.
TEST(Nccl, nobody_waits_for_an_abort_that_waits_for_the_graphs_of_others) {
  const HeldAborts held;
  const auto messages =
      told_instead_of_a_call(kLong, [](const Group& group) { group.give_up("its disk is full"); });
  EXPECT_EQ(messages, std::vector<std::string>(2, "rank 1 gave up: its disk is full"));
}

/// While it lives no start of NCCL returns.
struct HeldStarts {
  HeldStarts() { call_fake("fakeNcclHoldStarts"); }
  ~HeldStarts() { call_fake("fakeNcclReleaseStarts"); }
  HeldStarts(const HeldStarts&) = delete;
};

TEST(Nccl, a_start_that_does_not_end_is_given_up_at_the_deadline_and_aborted_once_it_does) {
  const HeldStarts held;
  const std::string message = told_within(kShort, 2, [](const Group& group) { with_fake(group); });
  EXPECT_THAT(message,
              testing::MatchesRegex("ncclCommInitRank did not end on rank [01] within 2 s"));
}

TEST(Nccl, a_start_that_waits_for_a_rank_that_gave_up_ends_with_its_reason) {
  const HeldStarts held;
  const std::string message = told_within(kLong, 3, [](const Group& group) {
    if (group.rank() != 2) return void(with_fake(group.subgroup({0, 1})));
    group.subgroup({2});
    call_fake("fakeNcclWaitForStarts", 2);
    group.give_up("its disk is full");
  });
  EXPECT_EQ(message, "rank 2 gave up: its disk is full");
}

/// Collectives do not end while it lives.
struct EndlessCalls {
  EndlessCalls() { call_fake("fakeNcclNeverEnd", true); }
  ~EndlessCalls() { call_fake("fakeNcclNeverEnd", false); }
  EndlessCalls(const EndlessCalls&) = delete;
};

/// What both ranks are told by a graph that has `work` and then an exchange.
std::vector<std::string> told_by_graphs(const std::function<void()>& work) {
  std::vector<std::string> messages(2);
  run_loopback(2,
               [&](const Group& group) {
                 const Device device = Device::host(1);
                 const Group there = with_fake(group, device);
                 Graph graph(device, "step");
                 const auto before = graph.host("work", work);
                 there.barrier().add_to(graph).after(before);
                 Exec exec = graph.instantiate();
                 const Stream stream(device);
                 exec.launch(stream);
                 try {
                   stream.synchronize();
                 } catch (const RanksBroken& error) {
                   messages[static_cast<std::size_t>(group.rank())] = error.what();
                 }
               },
               {.deadline = kShort});
  return messages;
}

TEST(Nccl, an_exchange_that_all_launched_and_that_does_not_end_is_ended_at_the_deadline) {
  std::optional<EndlessCalls> endless;
  std::once_flag once;
  EXPECT_EQ(told_by_graphs([&] { std::call_once(once, [&] { endless.emplace(); }); }),
            std::vector<std::string>(2,
                                     "all ranks launched 2 exchanges through NCCL, and 1 ended; no "
                                     "more did within 2 s"));
}

/// What ends a program whose ranks launched so many exchanges, of which 5 have ended on each.
std::string told_by_watches(const std::vector<std::uint64_t>& launched) {
  try {
    run_loopback(static_cast<int>(launched.size()),
                 [&](const Group& group) {
                   std::uint64_t ended = 5;
                   comm::Watch watch(*comm::Access::impl(group), ended, [] {});
                   watch.add_launched(launched[static_cast<std::size_t>(group.rank())]);
                   for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) group.check();
                 },
                 {.deadline = kShort});
  } catch (const RanksBroken& error) {
    return error.what();
  }
  return {};
}

TEST(Nccl, the_ranks_that_launched_least_are_named_unless_they_wait_too) {
  EXPECT_EQ(
      told_by_watches({7, 5, 6, 5}),
      "ranks 1 and 3 launched 5 exchanges through NCCL, and others up to 7; no more ended within "
      "2 s");
  EXPECT_EQ(
      told_by_watches({7, 6, 6}),
      "all ranks launched 6 to 7 exchanges through NCCL, and 5 ended; no more did within 2 s");
}

TEST(Nccl, exchanges_that_a_launch_may_have_more_or_less_than_once_are_refused) {
  run_loopback(2, [](const Group& group) {
    const Device device = Device::host(1);
    const Group there = with_fake(group, device);
    Graph graph(device, "step");
    const Condition is_on = graph.condition("is on");
    graph.if_("if", is_on, [&](Graph& body) { there.barrier().named("meet").add_to(body); });
    EXPECT_THAT([&] { graph.instantiate(); },
                testing::ThrowsMessage<BadArgument>(
                    HasSubstr("'meet' is an exchange through NCCL in the body of a condition "
                              "or a loop")));
  });
}

TEST(Nccl, a_device_that_ends_exchange_after_exchange_does_not_wait_too_long) {
  run_loopback(2,
               [](const Group& group) {
                 std::uint64_t ended = 0;
                 comm::Watch watch(*comm::Access::impl(group), ended, [] {});
                 watch.add_launched(7);
                 for (int exchange = 0; exchange < 7; ++exchange) {
                   std::this_thread::sleep_for(kShort / 4);
                   group.check();
                   ++std::atomic_ref(ended);
                 }
               },
               {.deadline = kShort});
}

/// A rank between two others takes part in more sends than they do.
TEST(Nccl, ranks_that_launched_different_numbers_of_exchanges_may_rest) {
  run_loopback(3,
               [](const Group& group) {
                 const Group there = with_fake(group);
                 int x = 0;
                 const std::span<int> all(&x, 1);
                 if (group.rank() > 0) there.receive(all, group.rank() - 1).run();
                 if (group.rank() < 2) there.send(all, group.rank() + 1).run();
                 std::this_thread::sleep_for(kShort + std::chrono::seconds(1));
                 there.barrier().run();
               },
               {.deadline = kShort});
}

TEST(Nccl, sends_that_differ_from_their_receives_are_named) {
  const std::string message = told(2, [](const Group& group) {
    std::vector<int> x(group.rank() == 0 ? 3 : 2);
    if (group.rank() == 0)
      group.send(std::span(x), 1).run();
    else
      group.receive(std::span(x), 0).run();
  });
  EXPECT_THAT(message, HasSubstr("rank 0 sends 3 i32 to rank 1, which expects 2 i32"));
}

TEST(Nccl, a_rank_that_does_not_come_is_named_within_the_deadline) {
  const std::string message = told(2, [](const Group& group) {
    if (group.rank() == 0) group.barrier().run();
  });
  EXPECT_THAT(message, HasSubstr("rank 1 left"));
}

TEST(Nccl, refusals_of_the_library_come_out_on_all_ranks_with_a_remedy) {
  const std::string message = told(5, [](const Group&) {});
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0: ncclCommInitRank: invalid argument"),
                             HasSubstr("NCCL_MULTI_RANK_GPU_ENABLE=1")));
}

TEST(Nccl, host_devices_are_refused) {
  run_loopback(2, [](const Group& group) {
    EXPECT_THAT([&] { group.on(Device::host(1), Transport::nccl); },
                testing::ThrowsMessage<BadArgument>(HasSubstr("NCCL moves memory of GPUs")));
  });
}

TEST(Nccl, symmetric_memory_is_refused) {
  run_loopback(2, [](const Group& group) {
    const Group fake = with_fake(group);
    EXPECT_THAT([&] { fake.symmetric<int>(3); },
                testing::ThrowsMessage<BadArgument>(HasSubstr("no symmetric memory")));
  });
}

/// On the host a library call runs at every launch; on CUDA it is captured once.
TEST(Nccl, an_exchange_in_a_graph_keeps_its_group) {
  run_loopback(2, [](const Group& group) {
    std::vector<int> x(7, group.rank() + 1);
    const Device device = Device::host(1);
    std::optional<Exec> exec;
    {
      std::vector<int> all{0, 1};
      const Group fake =
          comm::Access::group(comm::join_nccl(comm::Access::impl(group.subgroup(all)), device));
      Graph graph(device, "step");
      fake.all_reduce(std::span(x)).add_to(graph);
      exec.emplace(graph.instantiate());
    }
    Stream stream(device);
    for (int turn = 0; turn < 3; ++turn) exec->launch(stream);
    stream.synchronize();
    EXPECT_EQ(x, std::vector<int>(7, 12));
  });
}

}  // namespace
}  // namespace attacca::test
