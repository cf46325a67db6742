// ticket_kernels.hpp: kernels whose threads claim tickets until there are none, by every call and
// with every kind of divergence.
#pragma once

#include <attacca/device/ticket_counter.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

enum class Claiming : std::uint8_t {
  alone,         // each thread a batch for itself
  each,          // one ticket per lane
  together,      // a batch for the active lanes
  in_block,      // a batch for the block
  two_levels,    // a batch for the active lanes, through the block's shared memory
  some_lanes,    // one per lane, by an odd set of lanes that have diverged before
  single_lane,   // one per lane, by the last lane of each warp
  mixed,         // each lane in another way
  count_of_all,  // the number of ways, not one of them
};

using Cell = device::Atomic<std::uint32_t, device::Scope::gpu>;

/// Records which lanes got each ticket.
struct ClaimArgs {
  static constexpr std::uint32_t kRefill = 64;
  device::TicketCounter* counter;
  Cell* warps;   // [limit]: number of the claiming warp + 1
  Cell* lanes;   // [limit]: bits of the lanes that got it
  Cell* counts;  // [limit]: how many lanes got it; more than the bits if a lane got it twice
  Cell* wrong;   // tickets that two warps got, or that do not exist
  std::uint64_t limit;
  std::uint32_t batch;
  Claiming claiming;
};
extern const Kernel<ClaimArgs> claim_tickets;

}  // namespace attacca::test
