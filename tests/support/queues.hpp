// queues.hpp: helpers for the tests of WorkQueue, with threads and with kernels.
#pragma once

#include <gtest/gtest.h>
#include <attacca/device/work_queue.hpp>

#include <random>

#include "support/queue_kernels.hpp"
#include "support/real_threads.hpp"

namespace attacca::test {

using Queue = device::WorkQueue<std::uint32_t>;

inline device::WorkQueueOptions options(std::size_t capacity, std::size_t producers = 0,
                                        std::size_t inbox = 16) {
  return {.capacity = capacity,
          .producers = producers,
          .inbox = inbox,
          .patience = std::chrono::seconds(20)};
}
inline std::vector<std::uint32_t> numbers(std::uint32_t count) {
  std::vector<std::uint32_t> values(count);
  for (std::uint32_t at = 0; at < count; ++at) values[at] = at;
  return values;
}
/// Checks that each item was popped once. `counts` has, for each consumer, how often it got each
/// item.
inline void expect_one_each(const std::vector<std::vector<unsigned>>& counts) {
  for (std::size_t item = 0; item < counts.front().size(); ++item) {
    unsigned sum = 0;
    for (const std::vector<unsigned>& of : counts) sum += of[item];
    ASSERT_EQ(sum, 1u) << "item " << item;
  }
}
/// Pushes through a host producer's ring; waits while it is full.
inline void send(device::Producer<std::uint32_t>& to, std::uint32_t item,
                 const Deadline& deadline) {
  while (to.try_push(item) == device::Push::full) {
    if (deadline.is_over()) return;
    std::this_thread::yield();
  }
}

/// A random tree. A node's parent is any node before it.
struct Tree {
  std::vector<std::uint32_t> offsets, children;
  explicit Tree(std::uint32_t count) : offsets(count + 1), children(count - 1) {
    std::mt19937 random(3);
    std::vector<std::uint32_t> parents(count);
    for (std::uint32_t node = 1; node < count; ++node)
      ++offsets[(parents[node] = random() % node) + 1];
    for (std::uint32_t node = 0; node < count; ++node) offsets[node + 1] += offsets[node];
    std::vector<std::uint32_t> next(offsets.begin(), offsets.end() - 1);
    for (std::uint32_t node = 1; node < count; ++node) children[next[parents[node]]++] = node;
  }
};

}  // namespace attacca::test
