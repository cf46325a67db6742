// handoff.hpp: tells ThreadSanitizer about the happens-before edges inside oneTBB, whose library
// is not instrumented. Without the sanitizer these are nothing.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace attacca::host {

/// Before handing work over: what this thread wrote becomes visible to who calls `taken_over`.
inline void hand_over([[maybe_unused]] const void* token) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(token));
#endif
}
inline void taken_over([[maybe_unused]] const void* token) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(token));
#endif
}

}  // namespace attacca::host
