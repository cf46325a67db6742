// pause_processor.hpp: what a thread does between two polls that should stay where it is. Unlike a
// yield this is no call of the kernel, which would take longer and push the thread's own code and
// data out of its caches.
#pragma once

namespace attacca {

/// Takes some tens of nanoseconds, in which another thread of the core goes faster.
inline void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace attacca
