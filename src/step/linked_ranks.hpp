// linked_ranks.hpp: the symmetric memory over which kernels of several ranks exchange data without
// the host. See kernels/rank_exchange.hpp.
#pragma once

#include <attacca/device.hpp>
#include <attacca/memory.hpp>
#include <attacca/ranks.hpp>
#include <cstddef>
#include <cstdint>

#include "kernels/rank_exchange.hpp"

namespace attacca::step {

class LinkedRanks {
 public:
  /// A collective call, which throws RanksBroken. REQUIRES: `can_link`, and no more ranks than
  /// kernels::RankRoom has words for.
  LinkedRanks(const Device& device, const Group& group);

  /// Whether kernels of the device can address the group's symmetric memory, and none of them can
  /// stand in front of another rank's in one queue.
  static bool can_link(const Device& device, const Group& group);

  const kernels::RankLink& link() const { return link_; }
  /// Ends this rank's waits, now and later. May be called while kernels run.
  void stop();
  static constexpr std::size_t bytes() {
    return sizeof(kernels::RankRoom) + (kernels::RankRoom::kChannels + 1) * sizeof(std::uint32_t);
  }

 private:
  Device device_;
  SymmetricBuffer<kernels::RankRoom> rooms_;
  Buffer<std::uint32_t> turns_;
  Stream stop_stream_;  // beside the one whose kernels wait
  Buffer<std::uint32_t> stopped_;
  kernels::RankLink link_{};
};

}  // namespace attacca::step
