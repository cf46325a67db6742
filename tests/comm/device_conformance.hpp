// device_conformance.hpp: what groups on a device must do, as functions that each rank runs.
#pragma once

#include "comm/conformance.hpp"

namespace attacca::test {

/// NCCL adds up more than two ranks in an order of its own.
inline void expect_sums(const Group& group, const std::vector<float>& sums,
                        const std::vector<float>& expected) {
  if (group.backend() != "nccl" || group.size() < 3) {
    EXPECT_EQ(sums, expected);
    return;
  }
  ASSERT_EQ(sums.size(), expected.size());
  for (std::size_t at = 0; at < sums.size(); ++at)
    ASSERT_NEAR(sums[at], expected[at], 1e-6f * expected[at]) << at;
}

inline void collectives_give_what_the_reference_gives(const Device& device, const Group& group) {
  const auto n = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank());
  const auto values = [&](int rank, std::size_t count) {
    return Buffer<float>(device, values_of(rank, count));
  };
  for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{4097}}) {
    Buffer<float> from = values(group.rank(), count), to(device, count);
    group.all_reduce<float>(from.span(), to.span()).run();
    expect_sums(group, to.read(), sum_over(group.size(), count));
    group.all_reduce(from.span()).run();
    expect_sums(group, from.read(), sum_over(group.size(), count));

    for (int root = 0; root < group.size(); ++root) {
      Buffer<float> given = values(group.rank(), count);
      group.broadcast(given.span(), root).run();
      EXPECT_EQ(given.read(), values_of(root, count));
    }
    std::vector<float> all;
    for (int rank = 0; rank < group.size(); ++rank)
      for (const float value : values_of(rank, count)) all.push_back(value);
    Buffer<float> gathered(device, count * n);
    const Buffer<float> part = values(group.rank(), count);
    group.all_gather<float>(part.span(), gathered.span()).run();
    EXPECT_EQ(gathered.read(), all);
    Buffer<float> in_place = values(group.rank(), count * n);
    const std::span<float> mine = in_place.span().subspan(own * count, count);
    const Stream stream(device);
    stream.copy<float>(mine, part.span());
    stream.synchronize();
    group.all_gather<float>(mine, in_place.span()).run();
    EXPECT_EQ(in_place.read(), all) << "in place";

    Buffer<float> wide = values(group.rank(), count * n), scattered(device, count);
    const std::vector<float> expected = sum_over(group.size(), count, own * count);
    group.reduce_scatter<float>(wide.span(), scattered.span()).run();
    expect_sums(group, scattered.read(), expected);
    group.reduce_scatter<float>(wide.span(), wide.span().subspan(own * count, count)).run();
    const std::vector<float> after = wide.read();
    const auto first = after.begin() + static_cast<long>(own * count);
    expect_sums(group, {first, first + static_cast<long>(count)}, expected);
    group.barrier().run();
  }
}

/// Kernels around two all-reduces, launched three times: x = sum of (2 (sum of (3 x + rank)) + 1).
inline void exchanges_in_graphs_run_at_every_launch(const Device& device, const Group& group) {
  const std::uint64_t count = 100;
  Buffer<int> x(device, count);
  const AffineArgs before{x.data(), count, 3, group.rank()}, after{x.data(), count, 2, 1};
  const Grid grid = Grid::covering(count);
  const Exchange first = group.all_reduce(x.span()).named("first");
  const Exchange second = group.all_reduce(x.span()).named("second");
  Stream stream(device);
  Graph built(device, "built");
  const auto start = built.kernel(affine, grid, before);
  const auto middle = first.add_to(built).after(start);
  second.add_to(built).after(built.kernel(affine, grid, after).after(middle));
  const Graph captured = capture(stream, [&](StreamRef s) {
    s.kernel(affine, grid, before);
    first.enqueue(s);
    s.kernel(affine, grid, after);
    second.enqueue(s);
  });
  for (const Graph* graph : {&std::as_const(built), &captured}) {
    Exec exec = graph->instantiate();
    x.write(std::vector<int>(count, group.rank() + 1));
    int expected = 0;
    for (int turn = 0; turn < 3; ++turn) {
      exec.launch(stream);
      int all = 0;
      for (int rank = 0; rank < group.size(); ++rank)
        all += 3 * (turn == 0 ? rank + 1 : expected) + rank;
      expected = group.size() * (2 * all + 1);
    }
    stream.synchronize();
    EXPECT_EQ(x.read(), std::vector<int>(count, expected)) << graph->name();
  }
}

/// Every rank puts to the next one, in a graph that is launched again and again.
inline void a_signal_on_a_device_follows_its_data(const Device& device, const Group& group) {
  const int next = (group.rank() + 1) % group.size();
  const int before = (group.rank() + group.size() - 1) % group.size();
  constexpr std::size_t kCount = 1001;
  const SymmetricBuffer<int> inbox = group.symmetric<int>(kCount);
  const SymmetricBuffer<std::uint64_t> signal = group.symmetric<std::uint64_t>(1);
  Buffer<int> own(device, kCount), seen(device, kCount);
  Stream stream(device);
  for (int turn = 1; turn <= 20; ++turn) {
    const auto value = static_cast<std::uint64_t>(turn);
    own.write(std::vector<int>(kCount, 100 * group.rank() + turn));
    Graph graph(device, "put and wait");
    const auto put =
        group.put_signal<int>(inbox.span(), own.span(), next, signal.data(), value).add_to(graph);
    const auto wait = group.wait(signal.data(), value, before).add_to(graph).after(put);
    const auto copy = graph.copy<int>(seen.span(), inbox.span()).after(wait);
    group.barrier().add_to(graph).after(copy);  // all have read
    Exec exec = graph.instantiate();
    exec.launch(stream);
    stream.synchronize();
    ASSERT_EQ(seen.read(), std::vector<int>(kCount, 100 * before + turn));
  }
}

/// The same on streams, with short and long data and without a wait of any host.
inline void signals_order_the_streams_of_ranks(const Device& device, const Group& group) {
  const int next = (group.rank() + 1) % group.size();
  const int before = (group.rank() + group.size() - 1) % group.size();
  constexpr int kTurns = 6;
  for (const std::size_t count : {std::size_t{33}, std::size_t{40'000}}) {
    const SymmetricBuffer<int> inbox = group.symmetric<int>(count);
    const SymmetricBuffer<std::uint64_t> words = group.symmetric<std::uint64_t>(2);
    std::uint64_t* const data_came = words.data();
    std::uint64_t* const may_come = words.data() + 1;
    Buffer<int> own(device, std::vector<int>(count, group.rank())), seen(device, count * kTurns);
    const Stream stream(device);
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto value = static_cast<std::uint64_t>(turn + 1);
      stream.kernel(affine, Grid::covering(count), {own.data(), count, 1, 10});
      group.put_signal<int>(inbox.span(), own.span(), next, data_came, value).enqueue(stream);
      group.wait(data_came, value, before).named("data").enqueue(stream);
      const std::size_t first = static_cast<std::size_t>(turn) * count;
      stream.copy(seen.data() + first, inbox.data(), count * sizeof(int));
      group
          .put_signal<std::uint64_t>(words.span().first(0), words.span().first(0), before, may_come,
                                     value)
          .enqueue(stream);
      group.wait(may_come, value, next).named("may come").enqueue(stream);
    }
    stream.synchronize();
    std::vector<int> expected;
    for (int turn = 1; turn <= kTurns; ++turn)
      expected.insert(expected.end(), count, before + 10 * turn);
    EXPECT_EQ(seen.read(), expected);
    group.barrier().run();  // nobody's memory goes while others use it
  }
}

inline void puts_gets_and_counters_reach_any_rank(const Device& device, const Group& group) {
  const auto n = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank());
  const SymmetricBuffer<int> table = group.symmetric<int>(n);
  const SymmetricBuffer<std::uint64_t> counter = group.symmetric<std::uint64_t>(1);
  for (int to = 0; to < group.size(); ++to) {
    const Buffer<int> value(device, std::vector<int>{10 * group.rank() + to});
    group.put<int>(table.span().subspan(own, 1), value.span(), to).run();
  }
  constexpr int kTimes = 50;
  Buffer<std::uint64_t> number(device, 1);
  std::uint64_t total = 0;
  for (int at = 0; at < kTimes; ++at) {
    group.fetch_add(counter.data(), 1, group.size() - 1, number.data()).run();
    total += number.read()[0];
  }
  group.barrier().run();
  Buffer<int> row(device, n);
  for (int of = 0; of < group.size(); ++of) {
    group.get<int>(row.span(), table.span(), of).run();
    std::vector<int> expected;
    for (int from = 0; from < group.size(); ++from) expected.push_back(10 * from + of);
    EXPECT_EQ(row.read(), expected);
  }
  // Every number was given once, so their sum is that of 0, 1, 2, …
  Buffer<std::uint64_t> given(device, std::vector<std::uint64_t>{total});
  group.all_reduce(given.span()).run();
  const std::uint64_t all = kTimes * n;
  EXPECT_EQ(given.read()[0], all * (all - 1) / 2);
}

}  // namespace attacca::test
