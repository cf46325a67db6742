// loop_parts.hpp: what both kernels of the loop on the device use.
#pragma once

#include "resident/block_lanes.hpp"
#include "resident/mail.hpp"

namespace attacca::resident {

/// All lanes copy.
template <class T>
ATTACCA_HD void copy(const BlockLanes& lanes, T* to, const T* from, std::uint32_t count) {
  for (std::uint32_t at = lanes.index(); at < count; at += lanes.count()) to[at] = from[at];
}

ATTACCA_HD inline std::uint64_t now() { return device::NativeMemory::now(); }

ATTACCA_HD inline void push_news(const device::RingRef<News>& ring, device::RingPlace& place,
                                 const News& item) {
  device::RingWriter<News> news(ring, place);
  news.try_push(item);
  place = news.place();
}

}  // namespace attacca::resident
