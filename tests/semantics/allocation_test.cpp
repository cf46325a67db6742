// Tests of memory that a graph allocates: allocate, use, free, and launch again.
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

class SmallAllocation : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallAllocation);

TEST_P(SmallAllocation, an_allocation_carries_values_from_node_to_node) {
  const Buffer<int> result = buffer<int>({0});
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 1);
  const auto write =
      graph.kernel(set_value, Grid{}, {.to = scratch.data(), .value = 5}).after(scratch);
  const auto read =
      graph
          .kernel(sum, Grid{},
                  {.sum = result.data(), .in = {scratch.data()}, .count = 1, .more = 1})
          .after(write);
  graph.free(scratch).after(read);
  run(graph);
  EXPECT_EQ(result.read().front(), 6);
}

TEST_P(SmallAllocation, copies_and_fills_reach_offsets_into_an_allocation) {
  const Buffer<int> from = buffer<int>({7, 8});
  const Buffer<int> to = buffer<int>({0, 0, 0});
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 64);
  const auto clear = graph.fill(scratch.data() + 60, 0, 4 * sizeof(int)).after(scratch);
  const auto in = graph.copy(scratch.data() + 62, from.data(), from.bytes()).after(clear);
  const auto out = graph.copy(to.data(), scratch.data() + 61, to.bytes()).after(in);
  graph.free(scratch).after(out);
  run(graph);
  EXPECT_EQ(to.read(), (std::vector<int>{0, 7, 8}));
}

TEST_P(SmallAllocation, a_graph_that_never_frees_can_be_launched_again) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 256);
  const auto in = graph.copy(scratch.data() + 255, x.data(), sizeof(int)).after(scratch);
  const auto step = graph
                        .kernel(affine, Grid{},
                                {.x = scratch.data() + 255, .count = 1, .factor = 2, .summand = 1})
                        .after(in);
  graph.copy(x.data(), scratch.data() + 255, sizeof(int)).after(step);
  Exec exec = graph.instantiate();
  for (int at = 0; at < 3; ++at) exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 15);
}

TEST_P(SmallAllocation, two_allocations_do_not_overlap) {
  const Buffer<int> a = buffer(std::vector<int>(100));
  const Buffer<int> b = buffer(std::vector<int>(100));
  Graph graph(device());
  const auto first = graph.allocate<int>("first", 100);
  const auto second = graph.allocate<int>("second", 100);
  const auto fill_first = graph.fill(first.data(), 1, a.bytes()).after(first);
  const auto fill_second = graph.fill(second.data(), 2, b.bytes()).after(second, fill_first);
  const auto out_first = graph.copy(a.data(), first.data(), a.bytes()).after(fill_second);
  const auto out_second = graph.copy(b.data(), second.data(), b.bytes()).after(fill_second);
  graph.free(first).after(out_first);
  graph.free(second).after(out_second);
  run(graph);
  EXPECT_EQ(a.read(), std::vector<int>(100, 0x01010101));
  EXPECT_EQ(b.read(), std::vector<int>(100, 0x02020202));
}

TEST_P(SmallAllocation, a_body_may_use_what_was_allocated_before_the_conditional) {
  const Buffer<unsigned> left = buffer<unsigned>({5});
  const Buffer<int> result = buffer<int>({0});
  Graph graph(device());
  const auto scratch = graph.allocate<int>("scratch", 1);
  const auto clear = graph.fill(scratch.data(), 0, sizeof(int)).after(scratch);
  const auto loop =
      graph
          .while_(
              "add",
              [&](Graph& body, Condition again) {
                const auto add = body.kernel(
                    affine, Grid{}, {.x = scratch.data(), .count = 1, .factor = 1, .summand = 2});
                body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(add);
              })
          .after(clear);
  const auto out = graph.copy(result.data(), scratch.data(), sizeof(int)).after(loop);
  graph.free(scratch).after(out);
  run(graph);
  EXPECT_EQ(result.read().front(), 10);
}

TEST_P(SmallAllocation, allocations_are_aligned_like_buffers) {
  const Buffer<std::uint64_t> addresses = buffer<std::uint64_t>({1, 1, 1});
  Graph graph(device());
  for (int at = 0; at < 3; ++at) {
    const auto odd = graph.allocate<char>("odd", 1 + at);
    graph.kernel(tell_address, Grid{}, {.out = addresses.data() + at, .of = odd.data()}).after(odd);
  }
  run(graph);
  for (const std::uint64_t address : addresses.read()) EXPECT_EQ(address % 256, 0u) << address;
}

TEST_P(SmallAllocation, the_end_of_an_allocation_is_relocated_with_it) {
  // The sizes are whole pages: without a gap, stand-in addresses would touch.
  constexpr int kCount = 3;
  constexpr std::size_t kBytes = 4096;
  const Buffer<std::uint64_t> addresses = buffer(std::vector<std::uint64_t>(2 * kCount));
  Graph graph(device());
  for (int at = 0; at < kCount; ++at) {
    const auto page = graph.allocate<char>("page", kBytes);
    graph.kernel(tell_address, Grid{}, {.out = addresses.data() + 2 * at, .of = page.data()})
        .after(page);
    graph
        .kernel(tell_address, Grid{},
                {.out = addresses.data() + 2 * at + 1, .of = page.data() + kBytes})
        .after(page);
  }
  run(graph);
  const std::vector<std::uint64_t> seen = addresses.read();
  for (int at = 0; at < kCount; ++at) EXPECT_EQ(seen[2 * at + 1] - seen[2 * at], kBytes);
}

TEST_P(SmallAllocation, the_end_of_an_allocation_in_a_copied_child_is_the_childs_own) {
  const Buffer<std::uint64_t> addresses = buffer<std::uint64_t>({0, 0});
  Graph inner(device());
  const auto page = inner.allocate<char>("page", 4096);
  for (int at = 0; at < 2; ++at)
    inner
        .kernel(tell_address, Grid{}, {.out = addresses.data() + at, .of = page.data() + 4096 * at})
        .after(page);
  Graph graph(device());
  graph.child("inner", inner);
  run(graph);
  EXPECT_EQ(addresses.read()[1] - addresses.read()[0], 4096u);
}

TEST_P(SmallAllocation, an_exec_says_how_many_bytes_its_allocations_hold) {
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device());
  const auto a = graph.allocate<int>("a", 1000);
  const auto b = graph.allocate<std::uint64_t>("b", 10).after(a);
  const auto use = graph.copy(a.data(), b.data(), 80).after(b);
  graph.free(a).after(use);
  graph.free(b).after(use);
  EXPECT_EQ(graph.instantiate().memory().pinned_bytes, 4080u);

  Graph without(device());
  without.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  const Exec exec = without.instantiate();
  EXPECT_EQ(exec.memory().pinned_bytes, 0u);
  EXPECT_GT(exec.memory().host_bytes, 0u);
}

TEST_P(SmallAllocation, an_allocation_of_nothing_is_refused) {
  Graph graph(device());
  EXPECT_THROW(graph.allocate<int>("nothing", 0), BadArgument);
}

}  // namespace
}  // namespace attacca::test
