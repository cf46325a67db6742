// Tests of ranks that share a device: exchanges as kernels, on streams and in graphs that are
// joined, on each executor.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>

#include "comm/device_conformance.hpp"
#include "comm/device_program.hpp"
#include "support/on_each_device.hpp"
#include "support/signal_kernels.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SmallSharedDevice : public OnEachDevice {
 protected:
  void on_ranks(int ranks, const std::function<void(const Group&)>& body) const {
    run_loopback(ranks, [&](const Group& group) { body(group.on(device())); });
  }
  /// What the ranks were told, which is the same for all.
  std::string told(int ranks, const std::function<void(const Group&)>& body,
                   std::chrono::seconds deadline = std::chrono::seconds(60)) const {
    std::string message;
    try {
      run_loopback(ranks, [&](const Group& group) { body(group.on(device())); },
                   {.deadline = deadline});
    } catch (const Error& error) {
      message = error.what();
    }
    return message;
  }
  Buffer<float> values(int rank, std::size_t count, std::size_t first = 0) const {
    return buffer(values_of(rank, count, first));
  }
};
ATTACCA_ON_EACH_DEVICE(SmallSharedDevice);

TEST_P(SmallSharedDevice, collectives_give_what_the_reference_gives) {
  for (const int ranks : {1, 2, 3, 5})
    on_ranks(ranks, [&](const Group& group) {
      EXPECT_EQ(group.backend(), "edges");
      collectives_give_what_the_reference_gives(device(), group);
    });
}

TEST_P(SmallSharedDevice, sums_in_pairs_add_neighbours_first) {
  for (const int ranks : {4, 5, 8})
    on_ranks(ranks, [&](const Group& group) {
      for (const std::size_t count : {1, 64, 1001}) {
        Buffer<float> x = values(group.rank(), count);
        group.all_reduce(x.span(), Reduction::sum_in_pairs).run();
        EXPECT_EQ(x.read(), pair_sum_over(group.size(), count)) << count;
      }
    });
}

TEST_P(SmallSharedDevice, every_type_has_sum_minimum_and_maximum) {
  const auto check = [&]<class T>(const Group& group, T low) {
    std::vector<T> expected(5, low);
    const T own = static_cast<T>(low + static_cast<T>(group.rank()));
    for (const Reduction reduction : {Reduction::sum, Reduction::min, Reduction::max}) {
      Buffer<T> x = buffer(std::vector<T>(5, own));
      group.all_reduce(x.span(), reduction).run();
      const T most = static_cast<T>(low + static_cast<T>(1));
      const T want = reduction == Reduction::sum   ? static_cast<T>(low + most)
                     : reduction == Reduction::min ? low
                                                   : most;
      EXPECT_EQ(x.read(), std::vector<T>(5, want));
    }
  };
  on_ranks(2, [&](const Group& group) {
    check(group, std::int32_t{-7});
    check(group, std::uint32_t{3'000'000'000});
    check(group, std::int64_t{-(std::int64_t{1} << 40)});
    check(group, std::uint64_t{1} << 62);
    check(group, -0.5f);
    check(group, 1e-3);
  });
}

TEST_P(SmallSharedDevice, a_limit_is_read_when_the_exchange_runs) {
  on_ranks(3, [&](const Group& group) {
    Buffer<std::uint32_t> rows = buffer(std::vector<std::uint32_t>{2});
    Buffer<float> x = values(group.rank(), 40), all(device(), 120);
    Stream stream(device());
    Graph graph(device(), "limited");
    const auto sum = group.all_reduce(x.span()).limited_to(rows.data(), 5).add_to(graph);
    group.all_gather<float>(x.span(), all.span())
        .limited_to(rows.data(), 5)
        .add_to(graph)
        .after(sum);
    Exec exec = graph.instantiate();
    exec.launch(stream);
    stream.synchronize();
    std::vector<float> expected = values_of(group.rank(), 40);
    std::copy_n(sum_over(3, 10).begin(), 10, expected.begin());
    EXPECT_EQ(x.read(), expected);
    for (const std::size_t rank : {0u, 1u, 2u})
      EXPECT_TRUE(std::equal(expected.begin(), expected.begin() + 10,
                             all.read().begin() + static_cast<long>(rank) * 40));
  });
}

TEST_P(SmallSharedDevice, exchanges_in_graphs_run_at_every_launch) {
  for (const int ranks : {1, 2, 4})
    on_ranks(ranks,
             [&](const Group& group) { exchanges_in_graphs_run_at_every_launch(device(), group); });
}

TEST_P(SmallSharedDevice, random_programs_give_what_the_interpreter_gives) {
  for (const int ranks : {1, 2, 3, 4})
    on_ranks(ranks, [&](const Group& group) {
      programs_give_what_the_interpreter_gives(device(), group, 30);
    });
}

/// A kernel of rank 0 starts before rank 1 comes to the exchange, and ends behind it: rank 1 waits
/// for its message first, and the kernel for an answer that is sent behind the exchange.
TEST_P(SmallSharedDevice, an_exchange_runs_beside_a_kernel_that_does_not_need_it) {
  if (GetParam() == DeviceKind::host_serial) GTEST_SKIP() << "it runs one node at a time";
  using Signal = device::Signal<device::Scope::gpu>;
  using Relay = RelayArgs<device::Scope::gpu>;
  constexpr std::uint32_t kNever = 0xdead;
  const Buffer<Signal> signals(device(), std::vector<Signal>(3));
  Signal *const started = signals.data(), *const answer = started + 1, *const unread = started + 2;
  const Buffer<std::uint32_t> payload(device(), Relay::kWords);
  const Buffer<std::uint32_t> wrong(device(), std::vector<std::uint32_t>(2, kNever));
  device::WaitLog log(device());
  const auto args = [&](std::uint32_t side, Signal* back) {
    return Relay{.there = started,
                 .back = back,
                 .payload = payload.data(),
                 .wrong = wrong.data() + (back == answer ? 0 : 1),
                 .start = 0,
                 .rounds = 1,
                 .first_side = side,
                 .patience = log.patience(std::chrono::seconds(20), "relay", "the other side")};
  };
  on_ranks(2, [&](const Group& group) {
    Buffer<float> x = values(group.rank(), 1000);
    const auto kernel = relay<device::Scope::gpu>();
    Graph graph(device(), "step");
    const auto sum = group.all_reduce(x.span()).add_to(graph);
    if (group.rank() == 0) {
      graph.kernel(kernel, workers_apart(1), args(0, answer)).named("beside");
      graph.kernel(kernel, workers_apart(1), args(1, answer)).named("behind").after(sum);
    } else {
      const auto first = graph.kernel(kernel, workers_apart(1), args(1, unread)).named("before");
      sum.after(first);
    }
    Exec exec = graph.instantiate();
    Stream stream(device());
    exec.launch(stream);
    stream.synchronize();
    EXPECT_EQ(x.read(), sum_over(2, 1000));
  });
  for (const device::WaitReport& report : log.reports()) ADD_FAILURE() << report.message();
  EXPECT_EQ(wrong.read(), std::vector<std::uint32_t>(2, 0));
}

TEST_P(SmallSharedDevice, a_signal_follows_its_data) {
  for (const int ranks : {1, 2, 4})
    on_ranks(ranks,
             [&](const Group& group) { a_signal_on_a_device_follows_its_data(device(), group); });
}

TEST_P(SmallSharedDevice, signals_order_the_streams_of_ranks) {
  for (const int ranks : {1, 2, 3})
    on_ranks(ranks,
             [&](const Group& group) { signals_order_the_streams_of_ranks(device(), group); });
}

TEST_P(SmallSharedDevice, puts_gets_and_counters_reach_any_rank) {
  for (const int ranks : {1, 2, 5})
    on_ranks(ranks,
             [&](const Group& group) { puts_gets_and_counters_reach_any_rank(device(), group); });
}

/// Rank 0 writes, rank 1 reads: a graph that one builds and the other captures. Of the puts, the
/// wait follows the one that sets its value.
TEST_P(SmallSharedDevice, a_wait_in_a_graph_follows_the_put_in_another) {
  on_ranks(2, [&](const Group& group) {
    const std::uint64_t count = 3000;
    const SymmetricBuffer<int> inbox = group.symmetric<int>(count);
    const SymmetricBuffer<std::uint64_t> signal = group.symmetric<std::uint64_t>(1);
    Buffer<int> x = buffer(std::vector<int>(count, 0));
    const AffineArgs more{x.data(), count, 1, 1};
    const auto put = [&](std::uint64_t value) {
      return group.put_signal<int>(inbox.span(), x.span(), 1, signal.data(), value);
    };
    const Grid grid = Grid::covering(count);
    const Stream stream(device());
    Graph graph(device(), "captured");  // the name of those that are
    if (group.rank() == 0) {
      const auto early = put(1).add_to(graph);
      put(2).add_to(graph).after(graph.kernel(affine, grid, more).after(early));
    } else {
      graph = capture(stream, [&](StreamRef s) {
        group.wait(signal.data(), 2, 0).enqueue(s);
        s.kernel(affine, grid, {inbox.data(), count, 10, 0});
        s.copy(x.data(), inbox.data(), count * sizeof(int));
      });
    }
    Exec exec = graph.instantiate();
    for (int turn = 1; turn <= 5; ++turn) {
      exec.launch(stream);
      stream.synchronize();
      EXPECT_EQ(x.read(), std::vector<int>(count, group.rank() == 0 ? turn : 10 * turn));
    }
  });
}

TEST_P(SmallSharedDevice, a_stream_waits_for_the_put_of_a_graph) {
  on_ranks(2, [&](const Group& group) {
    const SymmetricBuffer<int> inbox = group.symmetric<int>(1);
    const SymmetricBuffer<std::uint64_t> signal = group.symmetric<std::uint64_t>(1);
    Buffer<int> x = buffer(std::vector<int>{group.rank() + 7});
    const int other = 1 - group.rank();
    Graph graph(device(), "put");
    group.put_signal<int>(inbox.span(), x.span(), other, signal.data(), 5).add_to(graph);
    const Stream first(device()), second(device());
    graph.instantiate().launch(first);
    group.wait(signal.data(), 4, other).enqueue(second);
    second.copy(x.data(), inbox.data(), sizeof(int));
    second.synchronize();
    first.synchronize();
    EXPECT_EQ(x.read()[0], other + 7);
    group.barrier().run();
  });
}

TEST_P(SmallSharedDevice, waits_that_would_never_end_are_refused_by_name) {
  const auto in_graphs = [&](bool puts) {
    return told(2, [&](const Group& group) {
      const SymmetricBuffer<std::uint64_t> word = group.symmetric<std::uint64_t>(1);
      const int other = 1 - group.rank();
      Graph graph(device(), "step");
      const auto wait = group.wait(word.data(), 3, other).named("turn").add_to(graph);
      const auto none = word.span().first(0);
      group.put_signal<std::uint64_t>(none, none, other, word.data(), puts ? 3u : 2u)
          .add_to(graph)
          .after(wait);
      graph.instantiate();
    });
  };
  EXPECT_THAT(in_graphs(false),
              HasSubstr("'turn' of rank 0 waits in graph 'step' for its signal to be 3, and no"));
  EXPECT_THAT(in_graphs(true), HasSubstr("the ranks wait for each other in graph 'step'"));
  std::promise<void> expired;
  const auto wait = [&](const Group& group) {
    const auto word = group.symmetric<std::uint64_t>(1);
    if (group.rank() == 1) {
      expired.get_future().wait();
      return group.barrier().run();
    }
    try {
      group.wait(word.data(), 3, 1).named("turn").run();
    } catch (...) {
      expired.set_value();
      throw;
    }
  };
  EXPECT_THAT(told(2, wait, std::chrono::seconds(2)),
              AllOf(HasSubstr("rank 0 waited 2 s for rank 1 to set the signal of 'turn' to 3"),
                    HasSubstr("it stood at 0")));
}

TEST_P(SmallSharedDevice, exchanges_outside_graphs_follow_the_work_of_every_rank) {
  on_ranks(3, [&](const Group& group) {
    const std::uint64_t count = 5000;
    Buffer<int> x(device(), count);
    Stream stream(device());
    stream.fill(x.span(), 0);
    int expected = 0;
    for (int turn = 0; turn < 20; ++turn) {
      const AffineArgs args{x.data(), count, 1, group.rank() + turn};
      stream.kernel(affine, Grid::covering(count), args);
      group.all_reduce(x.span()).enqueue(stream);
      stream.kernel(affine, Grid::covering(count), AffineArgs{x.data(), count, -1, 0});
      expected = -(3 * expected + 3 + 3 * turn);
    }
    stream.synchronize();
    EXPECT_EQ(x.read(), std::vector<int>(count, expected));
  });
}

TEST_P(SmallSharedDevice, ranks_may_have_other_kernels_between_their_exchanges) {
  on_ranks(2, [&](const Group& group) {
    const std::uint64_t count = 64;
    Buffer<int> x = buffer(std::vector<int>(count, 1));
    const AffineArgs twice{x.data(), count, 2, 0};
    Graph graph(device(), "step");
    std::vector<Node> last;
    if (group.rank() == 1) last = {graph.kernel(affine, Grid::covering(count), twice)};
    const auto sum = group.all_reduce(x.span()).add_to(graph).after(last);
    last = {sum};
    if (group.rank() == 0) last = {graph.kernel(affine, Grid::covering(count), twice).after(sum)};
    group.broadcast(x.span(), 0).add_to(graph).after(last);
    Exec exec = graph.instantiate();
    Stream stream(device());
    for (int turn = 0; turn < 2; ++turn) exec.launch(stream);
    stream.synchronize();
    EXPECT_EQ(x.read(), std::vector<int>(count, 36));  // 2 (1 + 2) = 6, 2 (6 + 12) = 36
  });
}

TEST_P(SmallSharedDevice, an_update_of_all_ranks_instantiates_anew_and_says_why) {
  on_ranks(2, [&](const Group& group) {
    const std::uint64_t count = 8;
    Buffer<int> x = buffer(std::vector<int>(count, 1));
    Graph graph(device(), "step");
    const auto scale = graph.kernel(affine, Grid{}, AffineArgs{x.data(), count, 2, 0});
    group.all_reduce(x.span()).add_to(graph).after(scale);
    Exec exec = graph.instantiate();
    const UpdateReport report = exec.set(scale, AffineArgs{x.data(), count, 5, group.rank()});
    EXPECT_TRUE(report.was_reinstantiated);
    EXPECT_THAT(report.reason, HasSubstr("one graph with those of other ranks"));
    Stream stream(device());
    exec.launch(stream);
    stream.synchronize();
    EXPECT_EQ(x.read(), std::vector<int>(count, 11));
  });
}

TEST_P(SmallSharedDevice, graphs_with_other_exchanges_are_refused_by_name) {
  const std::string message = told(2, [&](const Group& group) {
    Buffer<int> x(device(), 8);
    Graph graph(device(), "step");
    const auto a = group.all_reduce(x.span()).named(group.rank() == 0 ? "a" : "b").add_to(graph);
    group.all_reduce(x.span()).named(group.rank() == 0 ? "b" : "a").add_to(graph).after(a);
    graph.instantiate();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("rank 0 called all-reduce 'a'"),
                             HasSubstr("rank 1 called all-reduce 'b'")));
}

TEST_P(SmallSharedDevice, a_rank_that_does_not_launch_is_named_within_the_deadline) {
  const std::string message = told(2, [&](const Group& group) {
    Buffer<int> x(device(), 8);
    Graph graph(device(), "step");
    group.all_reduce(x.span()).add_to(graph);
    Exec exec = graph.instantiate();
    Stream stream(device());
    if (group.rank() == 0) exec.launch(stream);
    stream.synchronize();
  });
  EXPECT_THAT(message, HasSubstr("rank 1 left and did not come to launch 'step'"));
}

TEST_P(SmallSharedDevice, what_ranks_cannot_share_is_refused_by_name) {
  on_ranks(2, [&](const Group& group) {
    Buffer<int> x(device(), 8);
    const auto is_told = [](const char* text) {
      return testing::ThrowsMessage<BadArgument>(HasSubstr(text));
    };
    EXPECT_THAT([&] { group.send(x.span(), 1 - group.rank()).run(); }, is_told("have no send"));
    EXPECT_THAT([&] { group.put<int>(x.span(), x.span(), 0); },
                is_told("has no symmetric memory of 32 bytes"));
    const Stream stream(device());
    EXPECT_THAT([&] { group.launch_together(lock_step, Grid{}, {}, stream); },
                is_told("'lock_step' of "));
    Graph other(Device::host(1), "elsewhere");
    EXPECT_THAT([&] { group.barrier().add_to(other); }, is_told("is for "));
    Graph graph(device(), "step");
    graph.child("inner", [&](Graph& inside) { group.barrier().add_to(inside); });
    EXPECT_THAT([&] { graph.instantiate(); }, is_told("is in a child or a body"));
    EXPECT_THAT([&] { group.send(x.span(), 1 - group.rank()).limited_to(nullptr, 1); },
                is_told("only collectives"));
  });
}

TEST(DirectExchanges, are_refused_to_threads) {
  const Device shared = Device::host(1);
  run_loopback(2, [&](const Group& group) {
    EXPECT_THAT([&] { group.on(shared, Transport::direct); },
                testing::ThrowsMessage<BadArgument>(HasSubstr("no MPI to move memory of GPUs")));
  });
}

TEST(PeerCopies, need_a_device_for_each_rank_and_no_graph) {
  const auto is_told = [](const char* text) {
    return testing::ThrowsMessage<BadArgument>(HasSubstr(text));
  };
  const Device shared = Device::host(1);
  run_loopback(2, [&](const Group& group) {
    EXPECT_THAT([&] { group.on(shared, Transport::peer); }, is_told("need a device for each rank"));
    const Device own = Device::host(1);
    const Group peers = group.on(own, Transport::peer);
    EXPECT_EQ(peers.backend(), "peer");
    Buffer<int> x(own, std::vector<int>(8, group.rank() + 1));
    Graph graph(own, "step");
    peers.all_reduce(x.span()).named("sum").add_to(graph);
    EXPECT_THAT([&] { graph.instantiate(); }, is_told("'sum' of graph 'step' would copy between"));
    EXPECT_THAT([&] { peers.send(x.span(), 1 - group.rank()).run(); }, is_told("have no send"));
    EXPECT_THAT([&] { peers.symmetric<int>(4); }, is_told("no symmetric memory"));
    peers.all_reduce(x.span()).run();
    EXPECT_EQ(x.read(), std::vector<int>(8, 3));
  });
}

TEST(SharedDevice, ranks_with_host_devices_of_their_own_keep_their_group) {
  run_loopback(2, [](const Group& group) {
    EXPECT_EQ(group.on(Device::host(1)).backend(), "loopback");
    std::vector<int> x(4, group.rank());
    const std::uint32_t rows = 1;
    group.all_reduce(std::span(x)).limited_to(&rows, 2).run();
    EXPECT_EQ(x, (std::vector<int>{1, 1, group.rank(), group.rank()}));
  });
}

TEST(SharedDevice, ranks_that_limit_an_exchange_differently_are_told_how) {
  const auto body = [](const Group& group) {
    std::vector<int> x(4);
    const std::uint32_t rows = group.rank() == 0 ? 1 : 2;
    group.all_reduce(std::span(x)).limited_to(&rows, 2).run();
  };
  EXPECT_THAT([&] { run_loopback(2, body); },
              testing::ThrowsMessage<RanksBroken>(
                  HasSubstr("rank 0 called all-reduce of 4 i32, sum, limited to 2, rank 1 called "
                            "all-reduce of 4 i32, sum")));
}

}  // namespace
}  // namespace attacca::test
