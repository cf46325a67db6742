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

/// Pushes 0 … count-1, which must fit.
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
  Cell* counts;         // [count]: how often each came
  Cell* wrong;          // others
  Cell* broken;         // threads that found the queue broken
  Divergence divergence;
};
extern const Kernel<PopArgs> pop_items;

/// The same, but items below `seeds` lead to `per_seed` items each, which are pushed waiting for
/// room: item s to seeds + s * per_seed and on. There must be more threads than seeds. On the host
/// every warp is a thread of its own.
struct PassArgs {
  PopArgs pop;
  std::uint32_t seeds;
  std::uint32_t per_seed;
};
extern const Kernel<PassArgs> pass_items;

/// Works off a tree whose nodes lead to their children; a node that finds no room is worked off by
/// whoever holds its parent.
struct TreeArgs {
  PopArgs pop;
  const std::uint32_t* offsets;   // [count + 1]: where a node's children start
  const std::uint32_t* children;  // [count - 1]
  std::uint32_t* results;         // [count]: result_of(node), written plainly
  ATTACCA_HD static std::uint32_t result_of(std::uint32_t node) { return node * 7 + 1; }
};
extern const Kernel<TreeArgs> grow_tree;

/// Cancels the queue once it has popped `items`, by every thread.
struct CancelArgs {
  QueueRef queue;
  std::uint32_t items;
  Cell* popped;
  Cell* broken;  // threads that were told
};
extern const Kernel<CancelArgs> cancel_after;

/// Sends 3x + 1 for each x that comes, until the end or for `nanoseconds`. One thread.
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
