// queue_kernels.hpp: kernels that push, pop, grow trees of work and pass messages through rings.
#pragma once

#include <attacca/device/ring.hpp>
#include <attacca/device/work_queue.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

using Cell = device::Atomic<std::uint32_t, device::Scope::gpu>;
using QueueRef = device::WorkQueueRef<std::uint32_t>;

/// Lane-dependent detours before each call, so that few lanes call together.
enum class Divergence : std::uint8_t { none, odd_sets, single_lane };

/// Pushes 0 … count-1. REQUIRES: the queue has room for them.
struct PushArgs {
  QueueRef queue;
  std::uint32_t count;
  Cell* refused;
  Divergence divergence;
};
extern const Kernel<PushArgs> push_items;

/// Pops until the end.
struct PopArgs {
  QueueRef queue;
  std::uint32_t count;  // items are below it
  Cell* counts;         // [count]: how often each was popped
  Cell* wrong;          // popped items that are not below `count`
  Cell* broken;         // threads that found the queue broken
  Divergence divergence;
};
extern const Kernel<PopArgs> pop_items;

/// The same, but each item below `seeds` pushes `per_seed` more, from seeds + s * per_seed on for
/// item s, and waits for room. REQUIRES: there are more threads than seeds. On the host every warp
/// is a thread of its own.
struct PassArgs {
  PopArgs pop;
  std::uint32_t seeds;
  std::uint32_t per_seed;
};
extern const Kernel<PassArgs> pass_items;

/// Works off a tree: a node pushes its children. If there is no room for a child, the thread that
/// has its parent works it off.
struct TreeArgs {
  PopArgs pop;
  const std::uint32_t* offsets;   // [count + 1]: where a node's children start
  const std::uint32_t* children;  // [count - 1]
  std::uint32_t* results;         // [count]: result_of(node), written without atomics
  ATTACCA_HD static std::uint32_t result_of(std::uint32_t node) { return node * 7 + 1; }
};
extern const Kernel<TreeArgs> grow_tree;

/// Every thread pops. Once `items` were popped in total, the queue is cancelled.
struct CancelArgs {
  QueueRef queue;
  std::uint32_t items;
  Cell* popped;
  Cell* broken;  // threads that noticed the cancel
};
extern const Kernel<CancelArgs> cancel_after;

/// Sends 3x + 1 for each x it receives, until the end or for `nanoseconds`. One thread.
struct EchoArgs {
  device::RingRef<std::uint32_t> in;
  device::RingRef<std::uint32_t> out;
  std::uint32_t batch;  // at most kMostAtOnce
  std::uint64_t nanoseconds;
  Cell* given_up;
  static constexpr std::uint32_t kMostAtOnce = 16;
};
extern const Kernel<EchoArgs> echo;

}  // namespace attacca::test
