// queue_kernels.hpp: items of unequal length and the ways to distribute them: one warp or block
// each, a fixed part per worker, tickets from a counter. And a queue that only passes numbers on.
#pragma once

#include <attacca/workers.hpp>

namespace bench::claims {

/// Item i turns a number over turns[i] times and stores it in out[i].
struct Load {
  const std::uint32_t* turns;
  std::uint32_t* out;
  std::uint64_t items;
};
/// Arithmetic that no compiler can fold.
ATTACCA_HD inline std::uint32_t churned(std::uint32_t number, std::uint32_t turns) {
  for (std::uint32_t turn = 0; turn < turns; ++turn)
    number = (number ^ (number >> 15)) * 0x2c1b3c6du + turn;
  return number;
}

/// One warp for each item, in a grid as large as the work. The hardware balances it.
extern const attacca::Kernel<Load> one_warp_each;

/// As many workers as fit, each with its part from the start.
struct StaticArgs {
  Load load;
  bool is_strided;  // every n-th item instead of a run of neighbours
};
extern const attacca::Kernel<StaticArgs> static_parts;

/// As many workers as fit, each taking tickets.
extern const attacca::TicketWorkers<Load> ticket_workers;

/// The same three with a block as the worker, all of whose warps do the turns.
extern const attacca::Kernel<Load> one_block_each;
extern const attacca::Kernel<StaticArgs> static_block_parts;
extern const attacca::TicketWorkers<Load> ticket_blocks;

/// The same with a counter per block, refilled 1024 at a time.
struct TwoLevelArgs {
  Load load;
  attacca::device::TicketCounter* counter;
  std::uint32_t batch;
};
extern const attacca::Kernel<TwoLevelArgs> two_level;

/// Claims and does nothing else; *claimed counts the tickets.
enum class ClaimBy : std::uint8_t { thread, lanes, warp, block, local };
struct ClaimArgs {
  attacca::device::TicketCounter* counter;
  std::uint64_t limit;
  unsigned long long* claimed;
  std::uint32_t batch;
  ClaimBy by;
};
extern const attacca::Kernel<ClaimArgs> claim_only;

/// The tutorials' example: thread i turns a number over i % 256 times; with fixed indices, or with
/// indices from a counter, one atomic operation per warp.
struct ModuloArgs {
  std::uint32_t* out;
  std::uint64_t count;
  attacca::device::TicketCounter* counter;
};
extern const attacca::Kernel<ModuloArgs> modulo_plain;
extern const attacca::Kernel<ModuloArgs> modulo_queue;

/// Every warp pushes and pops `rounds` times, all lanes or one of them.
struct PassArgs {
  attacca::device::WorkQueueRef<std::uint32_t> queue;
  unsigned long long* passed;
  unsigned long long* sum;
  unsigned rounds;
  unsigned lanes;
};
extern const attacca::Kernel<PassArgs> pass_through;

}  // namespace bench::claims
