// handoff.hpp: tells ThreadSanitizer about the happens-before edges inside oneTBB, whose library
// is not instrumented. Without the sanitizer they do nothing.
#pragma once

#include <type_traits>

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace attacca::host {

/// Call it before handing work over: this thread's writes become visible to `taken_over`'s caller.
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

/// Work that oneTBB carries from one thread to another, with the token for `taken_over`. oneTBB
/// copies it after `hand_over`, and the token must be read before `taken_over` can be called. So it
/// is read where the sanitizer does not look, and used as a copy. REQUIRES: F is trivially
/// copyable.
template <class F>
struct Carried {
  static_assert(std::is_trivially_copyable_v<F>);
  const void* token;
  F work;

  template <class... Args>
  __attribute__((no_sanitize("thread"))) void operator()(const Args&... args) const {
    run(token, work, args...);
  }

  template <class... Args>
  __attribute__((noinline)) static void run(const void* token, F work, const Args&... args) {
    taken_over(token);
    work(args...);
  }
};
template <class F>
Carried(const void*, F) -> Carried<F>;

}  // namespace attacca::host
