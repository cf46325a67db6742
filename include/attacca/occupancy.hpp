// occupancy.hpp: tells how much of a device a launch fills and how large its last wave is. A wave
// is the blocks that fit at once. The last wave takes as long as a full one, even with few blocks.
#pragma once

#include <attacca/device.hpp>
#include <attacca/grid.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>
#include <string>

namespace attacca {

/// The resource that keeps more blocks from a processor.
enum class OccupancyLimit : std::uint8_t { threads, blocks, registers, shared_memory, workers };

/// The blocks of a kernel that fit on a device at once. A processor is an SM, or a worker thread of
/// the host, which runs one block at a time.
struct Residency {
  unsigned processors = 1;
  unsigned blocks_per_processor = 1;
  unsigned threads_per_processor = 1;  // the most that any kernel could have there
  OccupancyLimit limit = OccupancyLimit::workers;
};

struct Occupancy {
  std::string kernel;
  Residency residency;
  std::uint64_t blocks = 0;
  std::uint64_t resident_blocks = 0;   // a full wave
  double waves = 0;                    // blocks over resident_blocks
  std::uint64_t last_wave_blocks = 0;  // 1 to resident_blocks
  double last_wave_share = 0;          // of a full wave
  double share = 0;                    // of all waves, the last one taken as long as the others
  unsigned busy_processors = 0;        // in the first wave: blocks go to idle processors first
  double thread_share = 0;             // of the threads a processor can have, in a full wave
  std::uint64_t advised_blocks = 0;  // the nearest whole number of waves, not above unless below 1

  bool fills_whole_waves() const { return blocks == advised_blocks; }
  /// All that in up to three sentences, with a remedy.
  std::string explain() const;
};

/// Throws BadArgument where not one block fits.
Occupancy occupancy(const Device& device, const KernelInfo& kernel, const Grid& grid);
template <class Args>
Occupancy occupancy(const Device& device, const Kernel<Args>& kernel, const Grid& grid) {
  return occupancy(device, kernel.info(), grid);
}
/// The same for a device that is not here.
Occupancy occupancy(const Residency& residency, const KernelInfo& kernel, const Grid& grid);

}  // namespace attacca
