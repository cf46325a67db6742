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

/// Work that another thread may take over from the one that made it: what oneTBB is given to carry.
/// Its own word is read outside the sanitizer's sight, since that is before `taken_over` can
/// say that it may be: oneTBB copies it about after `hand_over`.
template <class F>
struct Delegated {
  F* work;
  __attribute__((no_sanitize("thread"))) void operator()() const { run(*work); }
  __attribute__((noinline)) static void run(F& taken) {
    taken_over(&taken);
    taken();
    hand_over(&taken);
  }
};

}  // namespace attacca::host
