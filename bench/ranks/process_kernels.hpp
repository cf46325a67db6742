// process_kernels.hpp: kernels of device_processes.cpp: a put with a signal and a wait by hand,
// work that keeps a device busy, stealing by blocks, and barriers between ranks.
#pragma once

#include <attacca/device/rank_barrier.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace bench {

/// Copies, and then sets `signal`.
struct PutByHandArgs {
  const float* from;
  float* to;
  std::uint64_t count;
  std::uint64_t* signal;
  std::uint64_t value;
  std::uint32_t* arrived;  // blocks that have copied; zero between launches
};
extern const attacca::Kernel<PutByHandArgs> put_by_hand;

struct WaitByHandArgs {
  std::uint64_t* signal;
  std::uint64_t value;
};
extern const attacca::Kernel<WaitByHandArgs> wait_by_hand;

/// Starts early behind a programmatic edge.
struct BusyArgs {
  std::uint64_t* out;  // [threads]
  std::uint32_t rounds;
};
extern const attacca::Kernel<BusyArgs> busy;

enum class Split : std::uint8_t { steal, perfect, halves };
/// Blocks do items, of which the first half has all the work.
struct ItemsArgs {
  Split split;
  std::uint64_t* counter;  // of rank 0, for all
  std::uint64_t* out;
  std::uint64_t items;
  std::uint32_t rounds;
  std::uint32_t rank, ranks;
};
extern const attacca::Kernel<ItemsArgs> do_items;
/// The sum of what all blocks of all ranks leave in `out`, if each item is done once.
std::uint64_t sum_of_items(std::uint64_t items, std::uint32_t rounds);

struct MeetingsArgs {
  attacca::device::RankBarrier barrier;
  std::uint32_t past;
  std::uint32_t turns;
};
extern const attacca::Kernel<MeetingsArgs> meetings;

}  // namespace bench
