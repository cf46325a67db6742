// Tests of WorkQueue in kernels: many warps, converged and diverged, small queues, work that grows,
// and host threads that feed a kernel while it runs.
#include <attacca/device/work_queue.hpp>

#include <optional>

#include "support/on_each_device.hpp"
#include "support/queues.hpp"

namespace attacca::test {
namespace {

using attacca::device::WaitReport;

class DeviceWorkQueue : public OnEachDevice {
 protected:
  static constexpr Divergence kDivergences[] = {Divergence::none, Divergence::odd_sets,
                                                Divergence::single_lane};

  /// Arguments of popping kernels, with results reset for `count` items.
  PopArgs pop_args(const Queue& queue, std::uint32_t count, Divergence divergence) {
    counts_.emplace(buffer(std::vector<Cell>(count)));
    cells_.emplace(buffer(std::vector<Cell>(2)));
    return {queue.ref(), count, counts_->data(), cells_->data(), cells_->data() + 1, divergence};
  }
  /// Waits, and checks that every item was popped once.
  void expect_all_popped(const Queue& queue) {
    stream().synchronize();
    for (const WaitReport& report : queue.reports()) ADD_FAILURE() << report.message();
    EXPECT_EQ(cells_->read()[0].load(device::relaxed), 0u) << "wrong";
    EXPECT_EQ(cells_->read()[1].load(device::relaxed), 0u) << "threads that were told broken";
    const std::vector<Cell> counts = counts_->read();
    for (std::size_t item = 0; item < counts.size(); ++item)
      ASSERT_EQ(counts[item].load(device::relaxed), 1u) << "item " << item;
  }

  void expect_pushed_then_popped(const Grid& grid, std::size_t capacity, std::uint32_t count,
                                 int rounds) {
    for (const Divergence divergence : kDivergences) {
      SCOPED_TRACE(testing::Message() << "divergence " << static_cast<int>(divergence));
      Queue queue(device(), options(capacity));
      const auto refused = buffer(std::vector<Cell>(1));
      for (int round = 0; round < rounds; ++round) {
        stream().kernel(push_items, grid, {queue.ref(), count, refused.data(), divergence});
        stream().kernel(pop_items, grid, pop_args(queue, count, divergence));
        expect_all_popped(queue);
      }
      EXPECT_EQ(refused.read().front().load(device::relaxed), 0u);
    }
  }
  void expect_passed(const Grid& grid, std::size_t capacity, std::uint32_t seeds,
                     std::uint32_t per_seed) {
    for (const Divergence divergence : {Divergence::none, Divergence::odd_sets}) {
      SCOPED_TRACE(testing::Message() << "divergence " << static_cast<int>(divergence));
      Queue queue(device(), options(capacity));
      queue.fill(numbers(seeds));
      stream().kernel(pass_items, grid,
                      {pop_args(queue, seeds + seeds * per_seed, divergence), seeds, per_seed});
      expect_all_popped(queue);
    }
  }
  void expect_grown(const Grid& grid, std::size_t capacity, std::uint32_t nodes) {
    const Tree tree(nodes);
    const auto offsets = buffer(tree.offsets), children = buffer(tree.children);
    for (const Divergence divergence : kDivergences) {
      SCOPED_TRACE(testing::Message() << "divergence " << static_cast<int>(divergence));
      Queue queue(device(), options(capacity));
      queue.fill(numbers(1));
      const auto results = buffer(std::vector<std::uint32_t>(nodes));
      stream().kernel(
          grow_tree, grid,
          {pop_args(queue, nodes, divergence), offsets.data(), children.data(), results.data()});
      expect_all_popped(queue);
    }
  }
  void expect_fed(const Grid& grid, std::size_t capacity, unsigned producers, std::uint32_t each) {
    Queue queue(device(), options(capacity, producers, 64));
    const Deadline deadline;
    std::vector<std::thread> threads;
    for (unsigned producer = 0; producer < producers; ++producer)
      threads.emplace_back([=, &deadline, writer = queue.producer()]() mutable {
        for (std::uint32_t at = 0; at < each; ++at) send(writer, producer * each + at, deadline);
        writer.close();
      });
    stream().kernel(pop_items, grid, pop_args(queue, producers * each, Divergence::none));
    stream().synchronize();
    for (std::thread& thread : threads) thread.join();
    expect_all_popped(queue);
  }

 private:
  std::optional<Buffer<Cell>> counts_, cells_;
};
ATTACCA_ON_EACH_DEVICE(DeviceWorkQueue);
class SmallDeviceWorkQueue : public DeviceWorkQueue {};
ATTACCA_ON_EACH_DEVICE(SmallDeviceWorkQueue);

TEST_P(SmallDeviceWorkQueue, what_was_pushed_is_popped_once) {
  expect_pushed_then_popped(Grid{{2}, {96}}, 256, 200, 3);
}
TEST_P(SmallDeviceWorkQueue, room_is_waited_for) { expect_passed(Grid{{2}, {64}}, 16, 2, 150); }
TEST_P(SmallDeviceWorkQueue, workers_that_push_find_the_end) {
  expect_grown(Grid{{2}, {64}}, 8, 300);
  expect_grown(Grid{{1}, {32}}, 1, 50);
}
TEST_P(SmallDeviceWorkQueue, a_host_thread_feeds_a_running_kernel) {
  expect_fed(Grid{{2}, {64}}, 32, 2, 300);
}
TEST_P(SmallDeviceWorkQueue, a_thread_breaks_up_work_without_end) {
  Queue queue(device(), options(1024));
  queue.fill(numbers(100));
  const auto cells = buffer(std::vector<Cell>(2));
  const Grid grid{{4}, {64}};
  stream().kernel(cancel_after, grid, {queue.ref(), 2000, cells.data(), cells.data() + 1});
  stream().synchronize();
  EXPECT_GE(cells.read()[0].load(device::relaxed), 2000u);
  EXPECT_EQ(cells.read()[1].load(device::relaxed), 4 * 64u) << "every thread is told";
  EXPECT_TRUE(queue.reports().empty());
}

TEST_P(DeviceWorkQueue, what_was_pushed_is_popped_once) {
  if (is_cuda())
    expect_pushed_then_popped(Grid{{264}, {256}}, 1 << 20, 1'000'000, 2);
  else
    expect_pushed_then_popped(Grid{{8}, {64}}, 1 << 14, 10'000, 2);
}
TEST_P(DeviceWorkQueue, room_is_waited_for) {
  if (is_cuda()) {
    expect_passed(Grid{{132}, {256}}, 1024, 1000, 1000);
    expect_passed(Grid{{16}, {256}}, 32, 20, 300);
  } else {
    expect_passed(Grid{{1}, {128}}, 4, 2, 20'000 / kSlowdown);
  }
}
TEST_P(DeviceWorkQueue, workers_that_push_find_the_end) {
  const Grid grid = is_cuda() ? Grid{{132}, {256}} : Grid{{4}, {32}};
  const std::uint32_t nodes = is_cuda() ? 1'000'000 : 20'000 / kSlowdown;
  for (const std::size_t capacity : {64, 1 << 16}) expect_grown(grid, capacity, nodes);
}
TEST_P(DeviceWorkQueue, host_threads_feed_a_running_kernel) {
  expect_fed(is_cuda() ? Grid{{32}, {256}} : Grid{{4}, {32}}, 1024, 4, 100'000 / kSlowdown);
}

}  // namespace
}  // namespace attacca::test
