// Tests of the simple nodes: kernel, copy, fill, host call and library call.
#include <gmock/gmock.h>

#include <atomic>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/raw_cuda.hpp"

namespace attacca::test {
namespace {

class SmallNodes : public OnEachDevice {
 protected:
  /// Checks that every thread of the grid ran once, with its own coordinates.
  void expect_stamps(const Grid& grid) {
    const std::size_t count = grid.blocks.count() * grid.threads.count();
    const Buffer<std::uint32_t> out = buffer(std::vector<std::uint32_t>(count, ~0u));
    Graph graph(device());
    graph.kernel(stamp, grid, {.out = out.data(), .first = 5});
    run(graph);

    std::vector<std::uint32_t> expected;
    const Dim3 b = grid.blocks;
    const Dim3 t = grid.threads;
    for (unsigned block = 0; block < b.count(); ++block)
      for (unsigned thread = 0; thread < t.count(); ++thread)
        expected.push_back(5 + stamp_of({block % b.x, block / b.x % b.y, block / b.x / b.y},
                                        {thread % t.x, thread / t.x % t.y, thread / t.x / t.y}));
    EXPECT_EQ(out.read(), expected);
  }
};
ATTACCA_ON_EACH_DEVICE(SmallNodes);

TEST_P(SmallNodes, a_grid_of_one_thread_runs_once) { expect_stamps(Grid{}); }
TEST_P(SmallNodes, a_one_dimensional_grid_runs_every_thread_once) { expect_stamps(Grid{{7}, {8}}); }
TEST_P(SmallNodes, a_two_dimensional_grid_runs_every_thread_once) {
  expect_stamps(Grid{{3, 5}, {4, 2}});
}
TEST_P(SmallNodes, a_three_dimensional_grid_runs_every_thread_once) {
  expect_stamps(Grid{{2, 3, 4}, {5, 2, 3}});
}

TEST_P(SmallNodes, a_large_grid_runs_every_thread_once) {
  // Enough threads for the host executor to split the kernel over its workers.
  const Buffer<unsigned> cell = buffer<unsigned>({0});
  Graph graph(device());
  graph.kernel(count_threads, Grid{{300}, {128}}, {.cell = cell.data()});
  run(graph);
  EXPECT_EQ(cell.read().front(), 300u * 128u);
}

TEST_P(SmallNodes, a_covering_grid_reaches_every_item) {
  const Buffer<int> x = buffer(std::vector<int>(1000, 2));
  Graph graph(device());
  graph.kernel(affine, Grid::covering(1000, 64),
               {.x = x.data(), .count = 1000, .factor = 3, .summand = 1});
  run(graph);
  EXPECT_EQ(x.read(), std::vector<int>(1000, 7));
}

TEST_P(SmallNodes, a_copy_moves_bytes) {
  const Buffer<int> from = buffer<int>({1, 2, 3, 4});
  const Buffer<int> to = buffer<int>({0, 0, 0, 0});
  Graph graph(device());
  graph.copy(to.data() + 1, from.data(), 2 * sizeof(int));
  run(graph);
  EXPECT_EQ(to.read(), (std::vector<int>{0, 1, 2, 0}));
}

TEST_P(SmallNodes, a_copy_reaches_memory_the_host_can_read) {
  const Buffer<int> from = buffer<int>({8, 9});
  const Buffer<int> to(device(), std::vector<int>{0, 0}, Visibility::shared);
  Graph graph(device());
  graph.copy(to.data(), from.data(), to.bytes());
  run(graph);
  EXPECT_EQ(to.data()[0], 8);
  EXPECT_EQ(to.data()[1], 9);
}

TEST_P(SmallNodes, a_fill_sets_bytes) {
  const Buffer<std::uint8_t> bytes = buffer(std::vector<std::uint8_t>(5, 1));
  Graph graph(device());
  graph.fill(bytes.data() + 1, 0xab, 3);
  run(graph);
  EXPECT_EQ(bytes.read(), (std::vector<std::uint8_t>{1, 0xab, 0xab, 0xab, 1}));
}

TEST_P(SmallNodes, a_copy_or_fill_of_nothing_is_refused) {
  const Buffer<int> x = buffer<int>({3});
  Graph graph(device());
  EXPECT_THROW(graph.copy(x.data(), x.data(), 0), BadArgument);
  EXPECT_THROW(graph.fill(x.data(), 1, 0), BadArgument);
  EXPECT_EQ(graph.node_count(), 0u);
}

TEST_P(SmallNodes, null_addresses_are_refused) {
  const Buffer<int> x = buffer<int>({3});
  Graph graph(device());
  EXPECT_THROW(graph.copy(nullptr, x.data(), 4), BadArgument);
  EXPECT_THROW(graph.copy(x.data(), nullptr, 4), BadArgument);
  EXPECT_THROW(graph.fill(nullptr, 1, 4), BadArgument);
  EXPECT_THROW(graph.host("nothing", nullptr), BadArgument);
  EXPECT_THROW(graph.library("nothing", nullptr), BadArgument);
  EXPECT_THROW(stream().copy(nullptr, x.data(), 4), BadArgument);
  EXPECT_THROW(stream().copy(x.data(), nullptr, 4), BadArgument);
  EXPECT_THROW(stream().fill(nullptr, 1, 4), BadArgument);
  EXPECT_THROW(stream().host("nothing", nullptr), BadArgument);
  EXPECT_EQ(graph.node_count(), 0u);
}

TEST_P(SmallNodes, a_grid_no_device_can_run_is_refused) {
  const Buffer<unsigned> cell = buffer<unsigned>({0});
  const CountThreadsArgs args{.cell = cell.data()};
  Graph graph(device());
  for (const Grid& grid : {Grid{{0}, {1}}, Grid{{1}, {0}}, Grid{{1, 0, 1}, {1}}, Grid{{1}, {1025}},
                           Grid{{1}, {1, 1, 65}}, Grid{{1, 65536}, {1}}, Grid{{1u << 31}, {1}}}) {
    EXPECT_THROW(graph.kernel(count_threads, grid, args), BadArgument);
    EXPECT_THROW(stream().kernel(count_threads, grid, args), BadArgument);
  }
  EXPECT_EQ(graph.node_count(), 0u);
}

TEST_P(SmallNodes, a_host_call_sees_what_kernels_wrote_and_they_see_what_it_wrote) {
  const Buffer<int> shared(device(), std::vector<int>{0, 0}, Visibility::shared);
  const Buffer<int> result = buffer<int>({0});
  int seen = 0;
  Graph graph(device());
  const auto before = graph.kernel(set_value, Grid{}, {.to = shared.data(), .value = 20});
  const auto call = graph
                        .host("double it",
                              [&seen, p = shared.data()] {
                                seen = p[0];
                                p[1] = 2 * p[0];
                              })
                        .after(before);
  graph
      .kernel(sum, Grid{}, {.sum = result.data(), .in = {shared.data() + 1}, .count = 1, .more = 3})
      .after(call);
  run(graph);
  EXPECT_EQ(seen, 20);
  EXPECT_EQ(result.read().front(), 43);
}

TEST_P(SmallNodes, a_host_call_runs_at_every_launch) {
  std::atomic<int> calls{0};
  Graph graph(device());
  graph.host("count", [&] { ++calls; });
  Exec exec = graph.instantiate();
  for (int at = 0; at < 3; ++at) exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(calls, 3);
}

TEST_P(SmallNodes, a_library_call_enqueues_kernels_copies_and_fills_in_order) {
  const Buffer<int> x = buffer<int>({1, 1, 1});
  const Buffer<int> y = buffer<int>({0, 0, 0});
  Graph graph(device());
  const auto before =
      graph.kernel(affine, Grid{}, {.x = x.data(), .count = 3, .factor = 2, .summand = 0});
  const auto library =
      graph
          .library("two steps",
                   [x = x.data(), y = y.data()](StreamRef on) {
                     on.kernel(affine, Grid{}, {.x = x, .count = 3, .factor = 1, .summand = 5});
                     on.copy(y, x, 2 * sizeof(int));
                     on.fill(y + 2, 0xff, sizeof(int));
                   })
          .after(before);
  graph.kernel(affine, Grid{}, {.x = y.data(), .count = 3, .factor = 10, .summand = 0})
      .after(library);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{7, 7, 7}));
  EXPECT_EQ(y.read(), (std::vector<int>{70, 70, -10}));
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{19, 19, 19}));
}

TEST_P(SmallNodes, a_library_call_may_call_the_host_and_another_library) {
  const Buffer<int> x = buffer<int>({1});
  std::atomic<int> calls{0};
  Graph graph(device());
  graph.library("outer", [&calls, p = x.data()](StreamRef on) {
    on.host("count", [&calls] { ++calls; });
    on.library("inner", [p](StreamRef same) {
      same.kernel(affine, Grid{}, {.x = p, .count = 1, .factor = 1, .summand = 1});
    });
  });
  Exec exec = graph.instantiate();
  run(exec);
  run(exec);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(x.read().front(), 3);
}

/// As NCCL does, whose stream is captured with its first call and used again in the second.
TEST_P(SmallNodes, library_calls_of_a_graph_may_keep_a_stream_in_its_capture) {
  if (!is_cuda()) GTEST_SKIP() << "the host captures nothing";
  const Buffer<int> x = buffer<int>({1});
  const RawStream own;
  Graph graph(device());
  const auto twice =
      graph.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 2, .summand = 0});
  const auto first = graph
                         .library("first",
                                  [&](StreamRef on) {
                                    let_raw_wait(own.get(), on.native());
                                    launch_raw_add(own.get(), x.data(), 1, 1);
                                    let_raw_wait(on.native(), own.get());
                                  })
                         .after(twice);
  const auto tenfold =
      graph.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 10, .summand = 0})
          .after(first);
  graph
      .library("second",
               [&](StreamRef on) {
                 let_raw_wait(on.native(), own.get());
                 launch_raw_add(on.native(), x.data(), 5, 1);
               })
      .after(tenfold);
  run(graph);
  EXPECT_EQ(x.read().front(), 35);
}

TEST_P(SmallNodes, a_library_call_that_enqueues_nothing_passes_order_through) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto first =
      graph.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 2, .summand = 1});
  const auto nothing = graph.library("nothing", [](StreamRef) {}).after(first);
  graph.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 5, .summand = 0})
      .after(nothing);
  run(graph);
  EXPECT_EQ(x.read().front(), 15);
}

TEST_P(SmallNodes, a_library_call_cannot_launch_an_exec) {
  const Buffer<int> x = buffer<int>({1});
  Graph inner(device(), "inner");
  inner.kernel(set_value, Grid{}, {.to = x.data(), .value = 2});
  Exec exec = inner.instantiate();
  Graph graph(device());
  graph.library("launches", [&exec](StreamRef on) { exec.launch(on); });
  // CUDA calls the function when the graph is instantiated, the host when it runs.
  EXPECT_THROW(run(graph), Error);
}

TEST_P(SmallNodes, nodes_have_the_names_they_were_given) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device(), "of names");
  const auto kernel = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 2});
  const auto fill = graph.fill(x.data(), 0, 1);
  EXPECT_EQ(kernel.name(), "set_value");
  EXPECT_EQ(fill.name(), "fill");
  EXPECT_EQ(kernel.named("first").name(), "first");
  EXPECT_EQ(fill.named("second").name(), "second");
  EXPECT_EQ(graph.host("third", [] {}).name(), "third");
  EXPECT_EQ(graph.name(), "of names");
}

}  // namespace
}  // namespace attacca::test
