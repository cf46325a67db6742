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
template <unsigned kThreads>
bool all_of(unsigned id, bool is_true) {
  static std::array<unsigned, 16> others{};  // how many threads said no
  static std::array<unsigned, 16> leaving{};
  if (!is_true) ++others[id];
  sync_some<kThreads>(id);
  const bool result = others[id] == 0;
  if (++leaving[id] == kThreads) leaving[id] = others[id] = 0;
  sync_some<kThreads>(id);
  return result;
}
template <unsigned>
void give_registers() {}
template <unsigned>
void take_registers() {}
inline void fence_for_wgmma() {}
inline void cp_async_8(void* to, const void* from, bool is_there) {
  test::emulated::Later::copies().add([=] {
    if (is_there)
      std::memcpy(to, from, 8);
    else
      std::memset(to, 0, 8);
  });
}
inline float* in_memory(float* numbers) { return numbers; }

}  // namespace attacca::sm90
