// resident_kernels.hpp: the kernels of items that are dispatched one after another by a scheduler
// on the device, a persistent worker or the host.
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
  const std::uint32_t* item;  // its index
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

/// Echoes every value, `count` times or until two seconds pass without one.
struct EchoArgs {
  attacca::device::RingRef<std::uint64_t> in;
  attacca::device::RingRef<std::uint64_t> out;
  std::uint32_t count;
};
extern const attacca::Kernel<EchoArgs> echo;

}  // namespace bench::claims
