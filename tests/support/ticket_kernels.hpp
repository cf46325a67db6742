// ticket_kernels.hpp: kernels whose threads claim tickets until there are none, in every way there
// is and in every state of divergence.
#pragma once

#include <attacca/device/ticket_counter.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

enum class Claiming : std::uint8_t {
  alone,         // each thread a batch for itself
  each,          // one ticket per lane
  together,      // a batch for the lanes that are there
  in_block,      // a batch for the block
  two_levels,    // a batch for the lanes that are there, through the block's shared memory
  some_lanes,    // one per lane, by an odd set of lanes, each of which does something else before
  single_lane,   // one per lane, by the last lane of each warp
  mixed,         // each lane in another way
  count_of_all,  // not a way
};

using Cell = device::Atomic<std::uint32_t, device::Scope::gpu>;

/// Marks whom each ticket went to.
struct ClaimArgs {
  static constexpr std::uint32_t kRefill = 64;
  device::TicketCounter* counter;
  Cell* warps;   // [limit]: number of the claiming warp + 1
  Cell* lanes;   // [limit]: bits of its lanes that were told so
  Cell* counts;  // [limit]: how many were told so; the number of bits, where none is twice
  Cell* wrong;   // tickets that went to two warps, or that there are not
  std::uint64_t limit;
  std::uint32_t batch;
  Claiming claiming;
};
extern const Kernel<ClaimArgs> claim_tickets;

}  // namespace attacca::test
