// Tests of kernels that spawn kernels: modes, order, recursion, and the limit on pending launches.
#include <gmock/gmock.h>

#include <algorithm>

#include "support/log.hpp"
#include "support/nested_kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SmallSpawn : public OnEachDevice {
 protected:
  SpawnArgs spawning(const Buffer<unsigned>& count, unsigned times, SpawnMode mode,
                     const DeviceTally& statuses) const {
    return {.count = count.data(), .times = times, .mode = mode, .tally = statuses.view()};
  }
};
ATTACCA_ON_EACH_DEVICE(SmallSpawn);

TEST_P(SmallSpawn, every_thread_that_calls_spawns) {
  const Buffer<unsigned> count = buffer<unsigned>({0});
  const DeviceTally statuses(device());
  Graph graph(device());
  graph.kernel(spawn, Grid{{2}, {8}}, spawning(count, 3, SpawnMode::fire_and_forget, statuses));
  run(graph);
  EXPECT_EQ(count.read().front(), 48u);
  EXPECT_EQ(statuses.of(LaunchStatus::launched), 48u);
}

TEST_P(SmallSpawn, a_node_that_follows_waits_for_what_was_spawned) {
  const Buffer<unsigned> count = buffer<unsigned>({0, 0});
  const DeviceTally statuses(device());
  for (const SpawnMode mode : {SpawnMode::fire_and_forget, SpawnMode::tail}) {
    Graph graph(device());
    const auto clear = graph.fill(count.data(), 0, count.bytes());
    const auto spawner =
        graph.kernel(spawn, Grid{}, spawning(count, 20, mode, statuses)).after(clear);
    graph.copy(count.data() + 1, count.data(), sizeof(unsigned)).after(spawner);
    run(graph);
    EXPECT_EQ(count.read(), (std::vector<unsigned>{20, 20}));
  }
}

TEST_P(SmallSpawn, tails_run_in_order_after_the_kernel_and_what_it_fired) {
  const DeviceLog log(device());
  Graph graph(device());
  graph.kernel(spawn_in_order, Grid{}, {.log = log.view()});
  run(graph);
  std::vector<int> tags = log.read();
  ASSERT_EQ(tags.size(), 6u);
  // The kernel and its fire-and-forget launches run in any order; then the tails.
  std::sort(tags.begin(), tags.begin() + 3);
  EXPECT_EQ(tags, (std::vector<int>{0, 10, 11, 1, 2, 3}));
}

TEST_P(SmallSpawn, a_kernel_may_spawn_itself) {
  const Buffer<unsigned> leaves = buffer<unsigned>({0});
  Graph graph(device());
  graph.kernel(tree, Grid{}, {.leaves = leaves.data(), .depth = 5});
  run(graph);
  EXPECT_EQ(leaves.read().front(), 32u);
}

TEST_P(SmallSpawn, a_spawning_kernel_runs_on_a_stream_too) {
  const Buffer<unsigned> leaves = buffer<unsigned>({0});
  stream().kernel(tree, Grid{}, {.leaves = leaves.data(), .depth = 3});
  stream().synchronize();
  EXPECT_EQ(leaves.read().front(), 8u);
}

TEST_P(SmallSpawn, a_kernel_that_throws_after_spawning_gives_its_place_back_on_the_host) {
  if (is_cuda()) GTEST_SKIP() << "device code does not throw";
  const Buffer<unsigned> count = buffer<unsigned>({0});
  const DeviceTally statuses(device());
  Graph bad(device());
  bad.kernel(spawn_then_throw, Grid{}, spawning(count, 1500, SpawnMode::tail, statuses))
      .named("thrower");
  Exec exec = bad.instantiate();
  for (int at = 0; at < 3; ++at) {
    exec.launch(stream());
    EXPECT_THROW(stream().synchronize(), NodeFailed);
  }
  EXPECT_EQ(count.read().front(), 0u);
  EXPECT_EQ(statuses.of(LaunchStatus::spawn_budget), 0u);
}

TEST_P(SmallSpawn, a_grid_that_cannot_be_launched_is_refused_by_its_numbers) {
  const Buffer<unsigned> count = buffer<unsigned>({0});
  struct Case {
    Grid grid;
    std::string blocks;
    std::string threads;
    std::string bytes;
  };
  const Case cases[] = {
      {Grid{{1}, {2048}}, "1x1x1 blocks", "2048x1x1 threads", "0 bytes"},
      {Grid{{2}, {1, 1, 65}}, "2x1x1 blocks", "1x1x65 threads", "0 bytes"},
      {Grid{{1, 65536}, {32}}, "1x65536x1 blocks", "32x1x1 threads", "0 bytes"},
      {Grid{{1}, {32}, 64 << 10}, "1x1x1 blocks", "32x1x1 threads", "65536 bytes"},
      {Grid{{0}, {32}}, "0x1x1 blocks", "32x1x1 threads", "0 bytes"},
  };
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.blocks + " of " + wrong.threads + ", " + wrong.bytes);
    const DeviceTally statuses(device());
    Graph graph(device(), "wrong");
    graph
        .kernel(spawn_grid, Grid{},
                {.count = count.data(), .grid = wrong.grid, .tally = statuses.view()})
        .named("spawner");
    Exec exec = graph.instantiate();
    exec.launch(stream());
    EXPECT_THAT([&] { stream().synchronize(); },
                ThrowsMessage<LaunchRefused>(
                    AllOf(HasSubstr("'spawner' of graph 'wrong'"), HasSubstr(wrong.blocks),
                          HasSubstr(wrong.threads), HasSubstr(wrong.bytes), HasSubstr("1024"))));
    EXPECT_EQ(statuses.of(LaunchStatus::invalid_grid), 1u);
    EXPECT_EQ(statuses.total(), 1u);
  }
  EXPECT_EQ(count.read().front(), 0u);
}

TEST_P(SmallSpawn, a_refused_spawn_leaves_the_others_alone) {
  const Buffer<unsigned> count = buffer<unsigned>({0});
  const DeviceTally statuses(device());
  Graph graph(device());
  const auto wrong =
      graph.kernel(spawn_grid, Grid{},
                   {.count = count.data(), .grid = Grid{{1}, {2048}}, .tally = statuses.view()});
  graph.kernel(spawn, Grid{}, spawning(count, 5, SpawnMode::fire_and_forget, statuses))
      .after(wrong);
  Exec exec = graph.instantiate();
  exec.launch(stream());
  EXPECT_THROW(stream().synchronize(), LaunchRefused);
  EXPECT_EQ(count.read().front(), 5u);
}

TEST_P(SmallSpawn, limits_out_of_range_are_refused_with_the_remedy) {
  const auto refuse = [&](const nested::Limits& limits, const std::string& value,
                          const std::string& remedy) {
    try {
      nested::set_limits(device(), limits);
      FAIL() << "nothing was thrown";
    } catch (const BadArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(value));
      EXPECT_THAT(error.what(), HasSubstr(remedy));
    }
  };
  refuse({.pending_launches = 0}, "0 pending launches", "use 1 to");
  refuse({.pending_launches = std::size_t{1} << 40}, "1099511627776", "use 1 to");
  refuse({.stack_bytes = std::size_t{1} << 30}, "1073741824", "use at most");
  // The refusal changed nothing.
  const Buffer<unsigned> leaves = buffer<unsigned>({0});
  stream().kernel(tree, Grid{}, {.leaves = leaves.data(), .depth = 2});
  stream().synchronize();
  EXPECT_EQ(leaves.read().front(), 4u);
}

/// Not "Small": thousands of kernels.
class SpawnBudget : public SmallSpawn {};
ATTACCA_ON_EACH_DEVICE(SpawnBudget);

TEST_P(SpawnBudget, more_kernels_than_may_be_pending_are_refused) {
  // Tails cannot start before their kernel ends, so all of them are pending at once.
  const Buffer<unsigned> count = buffer<unsigned>({0});
  const DeviceTally statuses(device());
  Graph graph(device(), "flood");
  graph.kernel(spawn, Grid{}, spawning(count, 4096, SpawnMode::tail, statuses)).named("spawner");
  Exec exec = graph.instantiate();
  exec.launch(stream());
  try {
    stream().synchronize();
    FAIL() << "nothing was refused";
  } catch (const LaunchRefused& error) {
    EXPECT_EQ(error.node(), "spawner");
    EXPECT_THAT(error.what(), HasSubstr("2048"));
    EXPECT_THAT(error.what(), HasSubstr("set_limits"));
  }
  EXPECT_NO_THROW(stream().synchronize());
  EXPECT_EQ(statuses.total(), 4096u);
  EXPECT_GT(statuses.of(LaunchStatus::spawn_budget), 0u);
  if (!is_cuda()) {
    EXPECT_EQ(statuses.of(LaunchStatus::launched), 2048u);
  }

  // The whole budget is available again.
  const DeviceTally again(device());
  Graph modest(device());
  modest.kernel(spawn, Grid{}, spawning(count, 1000, SpawnMode::tail, again));
  run(modest);
  EXPECT_EQ(again.of(LaunchStatus::launched), 1000u);
}

TEST_P(SpawnBudget, the_limit_can_be_set) {
  if (is_cuda()) GTEST_SKIP() << "on CUDA only before the first launch; see tests/limits";
  struct Restore {
    Device device;
    ~Restore() { nested::set_limits(device, {}); }
  } restore{device()};
  nested::set_limits(device(), {.pending_launches = 10});
  const Buffer<unsigned> count = buffer<unsigned>({0});
  const DeviceTally statuses(device());
  Graph graph(device());
  graph.kernel(spawn, Grid{}, spawning(count, 11, SpawnMode::fire_and_forget, statuses))
      .named("spawner");
  Exec exec = graph.instantiate();
  exec.launch(stream());
  try {
    stream().synchronize();
    FAIL() << "nothing was refused";
  } catch (const LaunchRefused& error) {
    EXPECT_EQ(error.node(), "spawner");
    EXPECT_THAT(error.what(), HasSubstr("more than 10"));
  }
  EXPECT_EQ(statuses.of(LaunchStatus::launched), 10u);
  EXPECT_EQ(statuses.of(LaunchStatus::spawn_budget), 1u);
}

}  // namespace
}  // namespace attacca::test
