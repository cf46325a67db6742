// Tests of what ranks are told when one of them is missing, late or wrong: within the deadline, by
// name, and all of them the same.
#include <gmock/gmock.h>

#include <atomic>
#include <attacca/attacca.hpp>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/lock_step_kernels.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

using Body = std::function<void(const Group&)>;
// For tests in which it passes; a busy machine may leave a thread without a processor for a while.
constexpr std::chrono::seconds kShort(2);
constexpr std::chrono::seconds kLong(60);  // for those in which it must not

/// Runs `body` on every rank and returns what each was told; "" if it was told nothing.
std::vector<std::string> told(int ranks, std::chrono::nanoseconds deadline, const Body& body) {
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  run_loopback(ranks,
               [&](const Group& group) {
                 try {
                   body(group);
                 } catch (const RanksBroken& error) {
                   messages[static_cast<std::size_t>(group.rank())] = error.what();
                 }
               },
               {.deadline = deadline});
  return messages;
}

void sum_once(const Group& group, std::size_t count = 4, const std::string& name = "all-reduce") {
  std::vector<float> values(count);
  group.all_reduce(std::span(values)).named(name).run();
}

TEST(Faults, a_rank_that_leaves_before_a_collective_is_named_at_once) {
  const auto messages = told(3, kLong, [](const Group& group) {
    if (group.rank() != 2) sum_once(group);
  });
  EXPECT_EQ(messages[0], "rank 2 left and did not come to all-reduce of 4 f32, sum");
  EXPECT_EQ(messages[1], messages[0]);
}

TEST(Faults, a_rank_that_throws_between_collectives_tells_the_others_why) {
  std::vector<std::string> messages(3);
  const auto run = [&] {
    run_loopback(3, [&](const Group& group) {
      try {
        sum_once(group);
        if (group.rank() == 1) throw std::runtime_error("out of memory");
        sum_once(group);
      } catch (const RanksBroken& error) {
        messages[static_cast<std::size_t>(group.rank())] = error.what();
        throw;
      }
    });
  };
  EXPECT_THAT(run, ThrowsMessage<std::runtime_error>("out of memory"));
  EXPECT_EQ(messages, (std::vector<std::string>{"rank 1 gave up: out of memory", "",
                                                "rank 1 gave up: out of memory"}));
}

TEST(Faults, a_rank_that_gives_up_during_a_collective_ends_it_on_all_ranks) {
  const auto messages = told(3, kLong, [](const Group& group) {
    std::atomic<int> sums{0};
    std::thread killer([&] {
      while (sums < 3) std::this_thread::yield();
      if (group.rank() == 1) group.give_up("it was killed");
    });
    try {
      for (;; ++sums) sum_once(group, 1'000'000);
    } catch (...) {
      killer.join();
      throw;
    }
  });
  EXPECT_THAT(messages, Each("rank 1 gave up: it was killed"));
}

TEST(Faults, a_rank_that_leaves_after_its_last_collective_harms_nobody) {
  const auto messages = told(3, kLong, [](const Group& group) {
    sum_once(group);
    if (group.rank() == 2) return;
    const Group pair = group.subgroup({0, 1});
    for (int round = 0; round < 10; ++round) sum_once(pair);
  });
  EXPECT_THAT(messages, Each(""));
}

TEST(Faults, a_stalled_rank_is_named_within_the_deadline_and_hears_it_later) {
  std::promise<void> all_told;
  std::shared_future<void> resume = all_told.get_future().share();
  std::mutex mutex;
  int count = 0;
  const auto messages = told(3, kShort, [&](const Group& group) {
    if (group.rank() == 1) {
      resume.wait();
      return sum_once(group, 4, "late");
    }
    try {
      sum_once(group, 4, "gradients");
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (++count == 2) all_told.set_value();
      throw;
    }
  });
  EXPECT_THAT(messages,
              Each("rank 1 did not come to all-reduce 'gradients' of 4 f32, sum within 2 s"));
}

TEST(Faults, the_blame_goes_to_the_rank_at_the_end_of_a_chain_of_waits) {
  std::promise<void> told_promise;
  std::shared_future<void> resume = told_promise.get_future().share();
  const auto messages = told(3, kShort, [&](const Group& group) {
    int value = 0;
    if (group.rank() == 2) return resume.wait();
    try {
      group.receive(std::span(&value, 1), group.rank() + 1).run();
    } catch (...) {
      if (group.rank() == 0) told_promise.set_value();
      throw;
    }
  });
  EXPECT_EQ(messages[0], "rank 2 did not send for the receive of 1 i32 within 2 s");
  EXPECT_EQ(messages[1], messages[0]);
}

TEST(Faults, ranks_that_wait_for_each_other_are_told_so) {
  const auto messages = told(2, kShort, [](const Group& group) {
    int value = 0;
    group.send(std::span(&value, 1), 1 - group.rank()).run();
  });
  EXPECT_THAT(messages, Each(AllOf(StartsWith("ranks wait for each other:"),
                                   HasSubstr("rank 0 waits for rank 1 to receive"),
                                   HasSubstr("rank 1 waits for rank 0 to receive"))));
  EXPECT_EQ(messages[0], messages[1]);
}

TEST(Faults, ranks_that_disagree_are_all_told_the_same) {
  struct Case {
    Body body;
    std::string says;
  };
  const std::vector<Case> cases = {
      {[](const Group& group) { sum_once(group, group.rank() == 1 ? 5 : 4); },
       "the ranks disagree about collective 1: ranks 0, 2 and 3 called all-reduce of 4 f32, sum, "
       "rank 1 called all-reduce of 5 f32, sum; all ranks of a group must call the same "
       "collectives in the same order"},
      {[](const Group& group) {
         if (group.rank() == 0) return group.barrier().run();
         sum_once(group);
       },
       "rank 0 called barrier, ranks 1, 2 and 3 called all-reduce of 4 f32, sum"},
      {[](const Group& group) {
         int value = 0;
         group.broadcast(std::span(&value, 1), group.rank() / 2).run();
       },
       "ranks 0 and 1 called broadcast of 1 i32 from rank 0, ranks 2 and 3 called broadcast of 1 "
       "i32 from rank 1"},
      {[](const Group& group) {
         std::vector<std::uint32_t> words(2);
         if (group.rank() == 3) return sum_once(group, 2);
         group.all_reduce(std::span(words)).run();
       },
       "rank 3 called all-reduce of 2 f32, sum"},
      {[](const Group& group) {
         float x = 1;
         group.all_reduce(std::span(&x, 1), group.rank() == 2 ? Reduction::max : Reduction::sum)
             .run();
       },
       "rank 2 called all-reduce of 1 f32, maximum"},
      {[](const Group& group) { sum_once(group, 4, group.rank() == 0 ? "bucket 1" : "bucket 2"); },
       "rank 0 called all-reduce 'bucket 1' of 4 f32, sum, ranks 1, 2 and 3 called all-reduce "
       "'bucket 2' of 4 f32, sum"},
      {[](const Group& group) { group.symmetric<int>(group.rank() == 1 ? 3 : 4); },
       "rank 1 called symmetric allocation of 12 bytes"},
  };
  for (const Case& at : cases) {
    const auto messages = told(4, kLong, at.body);
    EXPECT_THAT(messages, Each(HasSubstr(at.says)));
    EXPECT_THAT(messages, Each(messages[0]));
  }
}

TEST(Faults, a_send_and_a_receive_of_other_sizes_are_named) {
  const auto messages = told(3, kLong, [](const Group& group) {
    std::vector<int> values(3);
    if (group.rank() == 0) group.send(std::span(values), 1).run();
    if (group.rank() == 1) group.receive(std::span(values).subspan(1), 0).run();
    if (group.rank() == 2) group.barrier().run();
  });
  EXPECT_THAT(messages, Each("rank 0 sends 3 i32 to rank 1, which expects 2 i32; both must name "
                             "the same size"));
}

TEST(Faults, a_failure_in_one_group_reaches_ranks_that_wait_in_another) {
  const auto messages = told(4, kLong, [](const Group& group) {
    const bool is_low = group.rank() < 2;
    const Group half = group.subgroup(is_low ? std::vector{0, 1} : std::vector{2, 3});
    if (is_low) sum_once(half, group.rank() == 0 ? 1 : 2);
    if (group.rank() == 2) sum_once(half);  // rank 3 waits for rank 0 instead
    int value = 0;
    group.receive(std::span(&value, 1), 0).run();
  });
  EXPECT_THAT(messages, Each(messages[0]));
  EXPECT_THAT(messages[0], HasSubstr("rank 0 called all-reduce of 1 f32, sum, rank 1"));
}

TEST(Faults, ranks_that_name_different_members_of_a_subgroup_are_told) {
  const auto messages = told(2, kShort, [](const Group& group) {
    group.subgroup(group.rank() == 0 ? std::vector{0, 1} : std::vector{1, 0});
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("come to subgroup 'ranks 0 and 1'"),
                                   HasSubstr("come to subgroup 'ranks 1 and 0'"))));
  EXPECT_EQ(messages[0], messages[1]);
}

TEST(Faults, a_signal_that_nobody_sets_ends_the_wait) {
  const auto messages = told(2, kShort, [](const Group& group) {
    const SymmetricBuffer<std::uint64_t> signal = group.symmetric<std::uint64_t>(1);
    if (group.rank() == 0) group.wait(signal.data(), 3, 1).named("activations").run();
  });
  EXPECT_EQ(messages[0],
            "rank 0 waited 2 s for rank 1 to set the signal of 'activations' to 3; it stood at 0");
}

TEST(Faults, a_group_that_broke_stays_broken) {
  const auto messages = told(2, kLong, [](const Group& group) {
    try {
      sum_once(group, group.rank() == 0 ? 1 : 2);
    } catch (const RanksBroken&) {
    }
    std::uint64_t before = 0;
    EXPECT_THROW(group.barrier().run(), RanksBroken);
    EXPECT_THROW(group.symmetric<int>(1), RanksBroken);
    EXPECT_THROW(group.subgroup({0, 1}), RanksBroken);
    EXPECT_THROW(group.send(std::span(&before, 1), 1 - group.rank()).run(), RanksBroken);
    EXPECT_THROW(group.receive(std::span(&before, 1), 1 - group.rank()).run(), RanksBroken);
  });
  EXPECT_THAT(messages, Each(""));
}

TEST(Faults, a_failure_inside_a_graph_comes_out_of_synchronize_and_stops_host_calls_behind_it) {
  std::vector<std::string> messages(2);
  std::vector<int> ran_behind(2);
  run_loopback(2,
               [&](const Group& group) {
                 const auto at = static_cast<std::size_t>(group.rank());
                 const Device device = Device::host(1);
                 std::vector<float> values(group.rank() == 0 ? 4 : 5);
                 Graph graph(device, "step");
                 const auto exchange =
                     group.all_reduce(std::span(values)).named("sum").add_to(graph);
                 graph.host("behind", [&] { ran_behind[at] = 1; }).after(exchange);
                 Exec exec = graph.instantiate();
                 Stream stream(device);
                 exec.launch(stream);
                 try {
                   stream.synchronize();
                 } catch (const NodeFailed& error) {
                   EXPECT_EQ(error.node(), "sum");
                   messages[at] = error.what();
                 }
               },
               {.deadline = kLong});
  EXPECT_THAT(messages, Each(HasSubstr("the ranks disagree about collective 1")));
  EXPECT_EQ(ran_behind, (std::vector<int>{0, 0}));
}

TEST(Faults, kernels_that_would_not_go_in_step_are_not_launched) {
  const auto messages = told(2, kLong, [](const Group& group) {
    const Device device = Device::host(1);
    const Stream stream(device);
    const auto words = group.symmetric<std::uint32_t>(2);
    const Grid grid{{group.rank() == 0 ? 1u : 3u}, {1}};
    group.launch_together(lock_step, grid, {.barrier = rank_barrier(group, words)}, stream);
  });
  EXPECT_THAT(messages,
              Each(AllOf(HasSubstr("rank 0 called launch 'lock_step' of 1 blocks of 1 threads"),
                         HasSubstr("rank 1 called launch 'lock_step' of 3 blocks"))));
}

TEST(Faults, a_kernel_names_what_it_waited_for_if_another_rank_does_not_come) {
  run_loopback(2, [](const Group& group) {
    const Device device = Device::host(1);
    const Stream stream(device);
    const auto words = group.symmetric<std::uint32_t>(2);
    const auto cells = group.symmetric<int>(2);
    const LockStepArgs args{.barrier = rank_barrier(group, words),
                            .turns = group.rank() == 0 ? 1u : 0u,
                            .own = cells.data(),
                            .next = cells.of(1),
                            .sum = cells.data() + 1,
                            .patience_nanoseconds = 20'000'000};
    group.launch_together(lock_step, Grid{}, args, stream);
    if (group.rank() == 0) {
      EXPECT_THAT([&] { stream.synchronize(); },
                  ThrowsMessage<WaitOverdue>(
                      AllOf(HasSubstr("'lock_step'"), HasSubstr("for the other ranks"))));
    } else {
      stream.synchronize();
    }
    group.barrier().run();
  });
}

TEST(Faults, a_barrier_for_kernels_needs_a_word_for_each_rank) {
  run_loopback(2, [](const Group& group) {
    const auto words = group.symmetric<std::uint32_t>(1);
    EXPECT_THAT([&] { rank_barrier(group, words); },
                ThrowsMessage<BadArgument>(HasSubstr("a barrier of 2 ranks with 1 words")));
    EXPECT_THAT([&] { words.of(2); }, ThrowsMessage<BadArgument>(HasSubstr("rank 2 is not in")));
  });
}

}  // namespace
}  // namespace attacca::test
