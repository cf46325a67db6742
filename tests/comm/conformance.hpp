// conformance.hpp: what every backend must do, as functions that each rank of a group runs. The
// tests of loopback call them on threads, those of MPI in processes.
#pragma once

#include <gtest/gtest.h>
#include <attacca/attacca.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "support/kernels.hpp"
#include "support/lock_step_kernels.hpp"

namespace attacca::test {

/// Sizes around the limits of slices, cache lines and small messages.
inline const std::vector<std::size_t> kOddSizes = {0, 1, 3, 16, 17, 1000, 4097, 20011, 70001};

/// A value of rank `rank` at place `at`: sums of them depend on the order of additions.
inline float value_at(int rank, std::size_t at) {
  return 1.0f / static_cast<float>(1 + at % 97) + 1000.0f * static_cast<float>(rank) / 3.0f;
}
inline std::vector<float> values_of(int rank, std::size_t count, std::size_t first = 0) {
  std::vector<float> values(count);
  for (std::size_t at = 0; at < count; ++at) values[at] = value_at(rank, first + at);
  return values;
}
/// The sum over the ranks of a group, in their order.
inline std::vector<float> sum_over(int ranks, std::size_t count, std::size_t first = 0) {
  std::vector<float> total = values_of(0, count, first);
  for (int rank = 1; rank < ranks; ++rank)
    for (std::size_t at = 0; at < count; ++at) total[at] += value_at(rank, first + at);
  return total;
}

inline void all_reduce_adds_in_the_order_of_ranks(const Group& group) {
  for (const std::size_t count : kOddSizes) {
    std::vector<float> from = values_of(group.rank(), count), to(count);
    group.all_reduce<float>(from, to).run();
    EXPECT_EQ(to, sum_over(group.size(), count)) << count;
    EXPECT_EQ(from, values_of(group.rank(), count)) << count;
    group.all_reduce(std::span(from)).run();
    EXPECT_EQ(from, to) << count << " in place";
  }
}

/// (0 + 1) + (2 + 3), and so on.
inline std::vector<float> pair_sum_over(int ranks, std::size_t count) {
  std::vector<std::vector<float>> sums;
  for (int rank = 0; rank < ranks; ++rank) sums.push_back(values_of(rank, count));
  for (std::size_t step = 1; step < sums.size(); step *= 2)
    for (std::size_t first = 0; first + step < sums.size(); first += 2 * step)
      for (std::size_t at = 0; at < count; ++at) sums[first][at] += sums[first + step][at];
  return sums[0];
}
inline void all_reduce_adds_in_pairs(const Group& group) {
  if (group.backend() == "nccl" && group.size() > 2) {  // which has an order of its own
    float x = 0;
    EXPECT_THROW(group.all_reduce(std::span(&x, 1), Reduction::sum_in_pairs).run(), BadArgument);
    return;
  }
  for (const std::size_t count : kOddSizes) {
    std::vector<float> from = values_of(group.rank(), count), to(count);
    group.all_reduce<float>(from, to, Reduction::sum_in_pairs).run();
    EXPECT_EQ(to, pair_sum_over(group.size(), count)) << count;
    group.all_reduce(std::span(from), Reduction::sum_in_pairs).run();
    EXPECT_EQ(from, to) << count << " in place";
  }
}

template <class T>
void check_reductions(const Group& group, T low) {
  const T own = static_cast<T>(low + static_cast<T>(group.rank()));
  const T last = static_cast<T>(low + static_cast<T>(group.size() - 1));
  T total = 0;
  for (int rank = 0; rank < group.size(); ++rank)
    total = static_cast<T>(total + static_cast<T>(low + static_cast<T>(rank)));
  std::vector<T> values(5);
  const auto reduced = [&](Reduction reduction) {
    values.assign(values.size(), own);
    group.all_reduce(std::span(values), reduction).run();
    return values;
  };
  EXPECT_EQ(reduced(Reduction::sum), std::vector<T>(5, total));
  EXPECT_EQ(reduced(Reduction::min), std::vector<T>(5, low));
  EXPECT_EQ(reduced(Reduction::max), std::vector<T>(5, last));
}
inline void every_type_has_sum_minimum_and_maximum(const Group& group) {
  check_reductions<std::int32_t>(group, -7);
  check_reductions<std::uint32_t>(group, 3'000'000'000u);
  check_reductions<std::int64_t>(group, -(std::int64_t{1} << 40));
  check_reductions<std::uint64_t>(group, std::uint64_t{1} << 62);
  check_reductions<float>(group, -0.5f);
  check_reductions<double>(group, 1e-3);
}

inline void broadcast_reaches_all_from_every_root(const Group& group) {
  struct Pair {  // any type that can be copied
    std::int16_t a;
    char b;
  };
  for (int root = 0; root < group.size(); ++root)
    for (const std::size_t count : kOddSizes) {
      std::vector<float> values = values_of(group.rank(), count);
      group.broadcast(std::span(values), root).run();
      EXPECT_EQ(values, values_of(root, count)) << count;
      std::vector<Pair> pairs(count, {static_cast<std::int16_t>(group.rank()), 'x'});
      group.broadcast(std::span(pairs), root).run();
      for (const Pair& pair : pairs) ASSERT_EQ(pair.a, root);
    }
}

inline void all_gather_joins_the_parts_of_all(const Group& group) {
  const auto n = static_cast<std::size_t>(group.size());
  for (const std::size_t count : kOddSizes) {
    std::vector<float> expected;
    for (int rank = 0; rank < group.size(); ++rank)
      for (const float value : values_of(rank, count)) expected.push_back(value);
    std::vector<float> to(count * n);
    group.all_gather<float>(values_of(group.rank(), count), std::span(to)).run();
    EXPECT_EQ(to, expected) << count;
    std::vector<float> in_place(count * n, -1.0f);
    const std::span<float> own(in_place.data() + count * static_cast<std::size_t>(group.rank()),
                               count);
    const std::vector<float> values = values_of(group.rank(), count);
    std::copy(values.begin(), values.end(), own.begin());
    group.all_gather<float>(own, std::span(in_place)).run();
    EXPECT_EQ(in_place, expected) << count << " in place";
  }
}

inline void reduce_scatter_gives_each_its_part_of_the_sum(const Group& group) {
  const auto n = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank());
  for (const std::size_t count : kOddSizes) {
    const std::vector<float> expected = sum_over(group.size(), count, own * count);
    std::vector<float> from = values_of(group.rank(), count * n), to(count);
    group.reduce_scatter<float>(from, std::span(to)).run();
    EXPECT_EQ(to, expected) << count;
    const std::span<float> part(from.data() + own * count, count);
    group.reduce_scatter<float>(from, part).run();
    EXPECT_EQ(std::vector<float>(part.begin(), part.end()), expected) << count << " in place";
  }
}

inline void sends_arrive_in_order(const Group& group) {
  const int next = (group.rank() + 1) % group.size();
  const int before = (group.rank() + group.size() - 1) % group.size();
  if (group.size() < 2) return;
  for (const std::size_t count : kOddSizes)
    for (int round = 0; round < 2; ++round) {
      std::vector<float> own = values_of(group.rank() + 10 * round, count), got(count);
      // The even ranks send first, so no two wait for each other; an odd ring has one that must
      // not.
      const bool sends_first = group.rank() % 2 == 0 && group.rank() + 1 != group.size();
      if (sends_first) group.send(std::span(own), next).run();
      group.receive(std::span(got), before).run();
      if (!sends_first) group.send(std::span(own), next).run();
      EXPECT_EQ(got, values_of(before + 10 * round, count)) << count;
    }
}

inline void a_wait_that_sees_the_signal_sees_the_data(const Group& group) {
  const int next = (group.rank() + 1) % group.size();
  const int before = (group.rank() + group.size() - 1) % group.size();
  const std::size_t count = 1001;
  const SymmetricBuffer<float> inbox = group.symmetric<float>(count);
  const SymmetricBuffer<std::uint64_t> signals = group.symmetric<std::uint64_t>(2);
  for (int round = 1; round <= 20; ++round) {
    const std::vector<float> own = values_of(group.rank() + round, count);
    const auto turn = static_cast<std::uint64_t>(round);
    group.put_signal<float>(inbox.span(), own, next, signals.data(), turn).run();
    group.wait(signals.data(), turn, before).run();
    const std::vector<float> got(inbox.data(), inbox.data() + count);
    EXPECT_EQ(got, values_of(before + round, count)) << round;
    // The sender may write again once this rank has read.
    const std::uint64_t none = 0;
    const SymmetricBuffer<std::uint64_t>& words = signals;
    group
        .put_signal<std::uint64_t>(words.span().subspan(0, 0), std::span(&none, 0), before,
                                   signals.data() + 1, turn)
        .run();
    group.wait(signals.data() + 1, turn, next).run();
  }
}

inline void puts_and_gets_reach_any_rank_at_any_offset(const Group& group) {
  const auto n = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank());
  const std::size_t each = 37;
  const SymmetricBuffer<std::uint32_t> table = group.symmetric<std::uint32_t>(n * each);
  for (const std::uint32_t value : table.span()) EXPECT_EQ(value, 0u) << "it starts as zeros";
  group.barrier().run();  // all have seen the zeros
  const auto cell = [&](std::size_t from, std::size_t to, std::size_t at) {
    return static_cast<std::uint32_t>(from * 10007 + to * 101 + at);
  };
  for (std::size_t to = 0; to < n; ++to) {
    std::vector<std::uint32_t> row(each);
    for (std::size_t at = 0; at < each; ++at) row[at] = cell(own, to, at);
    group.put<std::uint32_t>(table.span().subspan(own * each, each), row, static_cast<int>(to))
        .run();
  }
  group.barrier().run();
  for (std::size_t from = 0; from < n; ++from) {
    std::vector<std::uint32_t> all(n * each);
    group.get<std::uint32_t>(std::span(all), table.span(), static_cast<int>(from)).run();
    for (std::size_t writer = 0; writer < n; ++writer)
      for (std::size_t at = 0; at < each; ++at)
        ASSERT_EQ(all[writer * each + at], cell(writer, from, at));
  }
  group.barrier().run();  // nobody's memory goes while others read it
}

inline void fetch_add_gives_every_number_once(const Group& group) {
  const SymmetricBuffer<std::uint64_t> counter = group.symmetric<std::uint64_t>(1);
  const int tries = 500;
  std::vector<std::uint64_t> taken(static_cast<std::size_t>(tries));
  for (std::uint64_t& number : taken)
    group.fetch_add(counter.data(), 1, group.size() - 1, &number).run();
  for (std::size_t at = 1; at < taken.size(); ++at) ASSERT_GT(taken[at], taken[at - 1]);
  std::vector<std::uint64_t> all(taken.size() * static_cast<std::size_t>(group.size()));
  group.all_gather<std::uint64_t>(taken, std::span(all)).run();
  std::sort(all.begin(), all.end());
  std::vector<std::uint64_t> expected(all.size());
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(all, expected);
}

inline void overlapping_groups_do_not_mix(const Group& group) {
  if (group.size() < 3) return;
  // Neighbours make pairs, so every rank is in two of them. The even pairs come first, so that no
  // ring of ranks waits for each other.
  std::vector<Group> pairs;
  const auto join = [&](int first) {
    if (group.rank() == first || group.rank() == first + 1)
      pairs.push_back(group.subgroup({first + 1, first}));
  };
  for (int first = 0; first + 1 < group.size(); first += 2) join(first);
  for (int first = 1; first + 1 < group.size(); first += 2) join(first);
  for (int round = 0; round < 30; ++round)
    for (const Group& pair : pairs) {
      EXPECT_EQ(pair.size(), 2);
      std::vector<int> total{group.rank() + round, 1};
      pair.all_reduce(std::span(total)).run();
      const int other = group.rank() + (pair.rank() == 0 ? -1 : 1);
      EXPECT_EQ(total, (std::vector<int>{group.rank() + other + 2 * round, 2}));
    }
}

/// Kernels around an all-reduce, launched three times: x = (sum of (3 x + rank)) * 2.
inline void an_exchange_in_a_graph_of(const Device& device, const Group& group) {
  const std::uint64_t count = 100;
  Buffer<int> x(device, count);
  const AffineArgs before{x.data(), count, 3, group.rank()}, after{x.data(), count, 2, 0};
  const Exchange total = group.all_reduce(x.span()).named("sum x");
  Stream stream(device);
  Graph built(device, "built");
  const auto first = built.kernel(affine, Grid{}, before);
  const auto middle = total.add_to(built).after(first);
  built.kernel(affine, Grid{}, after).after(middle);
  const Graph captured = capture(stream, [&](StreamRef s) {
    s.kernel(affine, Grid{}, before);
    total.enqueue(s);
    s.kernel(affine, Grid{}, after);
  });
  for (const Graph* graph : {&std::as_const(built), &captured}) {
    Exec exec = graph->instantiate();
    x.write(std::vector<int>(count, group.rank() + 1));
    std::vector<int> of_rank(static_cast<std::size_t>(group.size()));
    std::iota(of_rank.begin(), of_rank.end(), 1);
    for (int turn = 0; turn < 3; ++turn) {
      exec.launch(stream);
      int all = 0;
      for (int rank = 0; rank < group.size(); ++rank)
        all += of_rank[static_cast<std::size_t>(rank)] * 3 + rank;
      of_rank.assign(of_rank.size(), all * 2);
    }
    stream.synchronize();
    EXPECT_EQ(x.read(), std::vector<int>(count, of_rank[0])) << graph->name();
  }
}

inline void an_exchange_in_a_graph_runs_at_every_launch(const Group& group) {
  an_exchange_in_a_graph_of(Device::host(1), group);
}

/// derive_edges puts an exchange behind the copy that writes what it reads.
inline void an_exchange_declares_its_accesses(const Group& group) {
  const Device device = Device::host(1);
  std::vector<int> given(9, group.rank()), x(9), y(9, -1);
  Graph graph(device, "declared");
  graph.copy(std::span(x), std::span<const int>(given));
  group.all_reduce<int>(x, std::span(y)).add_to(graph);
  graph.copy(std::span(given), std::span<const int>(y));
  graph.derive_edges();
  Exec exec = graph.instantiate();
  Stream stream(device);
  exec.launch(stream);
  stream.synchronize();
  EXPECT_EQ(given, std::vector<int>(9, group.size() * (group.size() - 1) / 2));
}

/// Kernels of all ranks, which wait for each other many times before they end.
inline void kernels_go_in_step(const Device& device, const Group& group) {
  constexpr std::uint32_t kTurns = 20;
  const int before = (group.rank() + group.size() - 1) % group.size();
  const SymmetricBuffer<std::uint32_t> words =
      group.symmetric<std::uint32_t>(static_cast<std::size_t>(group.size()));
  const SymmetricBuffer<int> cell = group.symmetric<int>(1);
  const Buffer<int> total(device, std::vector<int>{0});
  const Stream stream(device);
  for (std::uint32_t round = 0; round < 2; ++round) {
    group.launch_together(lock_step, Grid{},
                          {rank_barrier(group, words), round * 2 * kTurns, kTurns, cell.data(),
                           cell.of((group.rank() + 1) % group.size()), total.data(), 5'000'000'000},
                          stream);
    stream.synchronize();
    EXPECT_EQ(total.read()[0], static_cast<int>(kTurns) * 100 * before + 210) << round;
  }
  group.barrier().run();  // nobody's memory goes while others use it
}

inline void kernels_of_host_devices_go_in_step(const Group& group) {
  kernels_go_in_step(Device::host(1), group);
}

struct ConformanceCase {
  const char* name;
  void (*run)(const Group&);
};
/// Those that groups on a device have.
inline const ConformanceCase kCollectives[] = {
    {"all_reduce_adds_in_the_order_of_ranks", all_reduce_adds_in_the_order_of_ranks},
    {"all_reduce_adds_in_pairs", all_reduce_adds_in_pairs},
    {"every_type_has_sum_minimum_and_maximum", every_type_has_sum_minimum_and_maximum},
    {"broadcast_reaches_all_from_every_root", broadcast_reaches_all_from_every_root},
    {"all_gather_joins_the_parts_of_all", all_gather_joins_the_parts_of_all},
    {"reduce_scatter_gives_each_its_part_of_the_sum",
     reduce_scatter_gives_each_its_part_of_the_sum},
    {"overlapping_groups_do_not_mix", overlapping_groups_do_not_mix},
};
inline const ConformanceCase kConformance[] = {
    {"all_reduce_adds_in_the_order_of_ranks", all_reduce_adds_in_the_order_of_ranks},
    {"all_reduce_adds_in_pairs", all_reduce_adds_in_pairs},
    {"every_type_has_sum_minimum_and_maximum", every_type_has_sum_minimum_and_maximum},
    {"broadcast_reaches_all_from_every_root", broadcast_reaches_all_from_every_root},
    {"all_gather_joins_the_parts_of_all", all_gather_joins_the_parts_of_all},
    {"reduce_scatter_gives_each_its_part_of_the_sum",
     reduce_scatter_gives_each_its_part_of_the_sum},
    {"sends_arrive_in_order", sends_arrive_in_order},
    {"a_wait_that_sees_the_signal_sees_the_data", a_wait_that_sees_the_signal_sees_the_data},
    {"puts_and_gets_reach_any_rank_at_any_offset", puts_and_gets_reach_any_rank_at_any_offset},
    {"fetch_add_gives_every_number_once", fetch_add_gives_every_number_once},
    {"overlapping_groups_do_not_mix", overlapping_groups_do_not_mix},
    {"an_exchange_in_a_graph_runs_at_every_launch", an_exchange_in_a_graph_runs_at_every_launch},
    {"an_exchange_declares_its_accesses", an_exchange_declares_its_accesses},
    {"kernels_of_host_devices_go_in_step", kernels_of_host_devices_go_in_step},
};

}  // namespace attacca::test
