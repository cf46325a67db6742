// resident_kernels.hpp: items that come one after another, each decided on by whoever runs the
// loop: a scheduler on the device, a persistent worker, or the host.
#pragma once

#include <attacca/device/ring.hpp>
#include <attacca/resident.hpp>
#include <attacca/workers.hpp>

namespace bench::claims {

/// When an item began and ended, in nanoseconds of the device's clock.
struct ItemStamp {
  std::int64_t began;
  std::int64_t ended;
};
struct ItemArgs {
  const std::uint32_t* item;  // which one it is
  ItemStamp* stamps;
  std::uint32_t turns;
};
/// One item's work, for a graph.
extern const attacca::Kernel<ItemArgs> do_one_item;

struct WorkerItemArgs {
  ItemStamp* stamps;
  std::uint32_t turns;
};
/// The same for persistent workers, a warp each.
extern const attacca::QueueWorkers<std::uint32_t, WorkerItemArgs> item_workers;

/// For a ResidentScheduler whose payload is the item's number.
extern const attacca::Scheduler<std::uint32_t> schedule_items;

/// Sends back what comes, `count` times or until two seconds pass without anything.
struct EchoArgs {
  attacca::device::RingRef<std::uint64_t> in;
  attacca::device::RingRef<std::uint64_t> out;
  std::uint32_t count;
};
extern const attacca::Kernel<EchoArgs> echo;

}  // namespace bench::claims
