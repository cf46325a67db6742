// linked_ranks.cpp: makes the link of one rank, and ends its waits.
#include "step/linked_ranks.hpp"

#include <atomic>
#include <vector>

namespace attacca::step {

using kernels::RankLink;
using kernels::RankRoom;

bool LinkedRanks::can_link(const Device& device, const Group& group) {
  if (group.backend() == "nvshmem") return true;
  return !device.is_cuda() &&
         (group.backend() == "loopback" || group.backend() == "tcp" || group.backend() == "mpi");
}

LinkedRanks::LinkedRanks(const Device& device, const Group& group)
    : device_(device),
      rooms_(group.symmetric<RankRoom>(1)),
      turns_(device, std::vector<std::uint32_t>(RankRoom::kChannels)),
      stop_stream_(device),
      stopped_(device, 1, Visibility::shared) {
  for (int rank = 0; rank < group.size(); ++rank) link_.rooms[rank] = rooms_.of(rank);
  link_.turns = turns_.data();
  link_.nanoseconds = static_cast<std::uint64_t>(group.deadline().count());
  link_.rank = group.rank();
  link_.ranks = group.size();
  *stopped_.data() = RankLink::kStopped;
}

void LinkedRanks::stop() {
  std::uint32_t& lost = rooms_.data()->lost;
  if (device_.is_cuda())
    stop_stream_.copy(&lost, stopped_.data(), sizeof lost);
  else
    std::atomic_ref(lost).store(RankLink::kStopped, std::memory_order_relaxed);
}

}  // namespace attacca::step
