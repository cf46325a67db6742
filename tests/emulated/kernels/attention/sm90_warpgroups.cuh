// sm90_warpgroups.cuh: stands in for the file of this name in src/. Registers and proxies are none
// of the emulation's concern.
#pragma once

#include "emulated/cuda_threads.hpp"

namespace attacca::sm90 {

template <unsigned kThreads>
void sync_some(unsigned id) {
  test::emulated::Block::now().synchronize(id, kThreads);
}
template <unsigned kThreads>
void arrive_some(unsigned id) {
  test::emulated::Block::now().arrive(id, kThreads);
}
template <unsigned>
void give_registers() {}
template <unsigned>
void take_registers() {}
inline void fence_for_wgmma() {}

}  // namespace attacca::sm90
