// l2.hpp: steers a GPU's L2 cache. The host can set part of it aside for memory that is used again
// and again, and choose a window of addresses whose lines persist or stream while a guard lives.
// Kernels can prefetch, discard, and load and store with a hint which lines to evict first.
//
//   const L2SetAside set_aside = L2SetAside::of_fraction(device, 0.75);
//   const L2Guard guard(stream, L2Window::interleaved(device, table.data(), table.bytes()),
//                       L2Guard::AtEnd::reset);
//   stream.kernel(look_up, grid, {table.data(), ...});  // in that window, like all later calls
//
// All of it is advice: results never depend on it, except with `discard_l2`. The host accepts it
// without effect, and `has_effect` says so. A kernel of a graph gets its window with
// `KernelNode::l2_window`; streams that are captured record none.
#pragma once

#include <attacca/device.hpp>
#include <attacca/target.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace attacca {

/// The sizes of a device's L2 cache; all zero where it cannot be steered.
struct L2Cache {
  std::size_t bytes = 0;
  std::size_t max_set_aside = 0;
  std::size_t max_window = 0;
  std::size_t set_aside = 0;  // at the moment
};
L2Cache l2_cache(const Device& device);

/// Sets part of L2 aside for persisting lines while it lives, and restores the old size at the end.
/// All other work on the device loses that part. One thread at a time per device.
class [[nodiscard]] L2SetAside {
 public:
  /// At most `bytes`, and no more than the device allows.
  static L2SetAside of_bytes(const Device& device, std::size_t bytes);
  /// The same as a share of the whole cache, above 0 and up to 1.
  static L2SetAside of_fraction(const Device& device, double fraction);
  L2SetAside(const L2SetAside&) = delete;
  L2SetAside& operator=(const L2SetAside&) = delete;
  ~L2SetAside();

  std::size_t granted() const { return granted_; }
  bool has_effect() const { return granted_ != 0; }

 private:
  L2SetAside(const Device& device, std::size_t bytes);
  Device device_;
  std::size_t former_ = 0;
  std::size_t granted_ = 0;
};

/// How long lines stay: normal lines by their last use, streaming lines are evicted first,
/// persisting lines stay in the part set aside.
enum class L2Access : std::uint8_t { normal, streaming, persisting };

/// A range of addresses and the treatment of its lines.
struct L2Window {
  const void* base = nullptr;
  std::size_t bytes = 0;  // 0 is no window
  double hit_ratio = 1;   // the share of its lines, spread over it, that are treated as `hit`
  L2Access hit = L2Access::normal;
  L2Access miss = L2Access::normal;  // not persisting

  /// Lines that are used again. If `hit_ratio * bytes` is more than is set aside, they evict each
  /// other.
  static L2Window persisting(const void* base, std::size_t bytes, double hit_ratio = 1);
  /// Lines that are used once.
  static L2Window streaming(const void* base, std::size_t bytes);
  /// As many lines persist as `device` has set aside now; the rest streams.
  static L2Window interleaved(const Device& device, const void* base, std::size_t bytes);
  friend bool operator==(const L2Window&, const L2Window&) = default;
};
/// The window of a stream.
L2Window l2_window(StreamRef stream);

/// Kernels enqueued on the stream while it lives run with the window. At the end the stream gets
/// its old window back. Persisting windows need an L2SetAside that outlives them.
class [[nodiscard]] L2Guard {
 public:
  /// Whether persisting lines stay so at the end, for later kernels, or are reset.
  enum class AtEnd : std::uint8_t { keep, reset };
  L2Guard(StreamRef stream, const L2Window& window, AtEnd at_end = AtEnd::keep);
  L2Guard(const L2Guard&) = delete;
  L2Guard& operator=(const L2Guard&) = delete;
  ~L2Guard();

  const L2Window& window() const { return window_; }
  bool has_effect() const { return has_effect_; }

 private:
  StreamRef stream_;
  L2Window window_;
  L2Window former_;
  AtEnd at_end_;
  bool has_effect_ = false;
};

/// Waits for the stream, then makes all persisting lines of its device normal ones.
void reset_l2(StreamRef stream);

// --- in kernels ---------------------------------------------------------------------------------

inline constexpr std::size_t kL2LineBytes = 128;

/// Starts to fetch the line at `address` into L2.
ATTACCA_HD inline void prefetch_l2(const void* address) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(address)));
#else
  __builtin_prefetch(address);
#endif
}

/// Discards the contents of all lines that lie wholly in the range. They need not be written back,
/// and until they are written again their contents are undefined. No other thread may use them.
ATTACCA_HD inline void discard_l2([[maybe_unused]] void* address,
                                  [[maybe_unused]] std::size_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const std::size_t start = __cvta_generic_to_global(address);
  const std::size_t end = (start + bytes) / kL2LineBytes * kL2LineBytes;
  for (std::size_t line = (start + kL2LineBytes - 1) / kL2LineBytes * kL2LineBytes; line < end;
       line += kL2LineBytes)
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
#endif
}

/// An eviction priority for single loads and stores. It lives in a register: make it once per
/// thread.
class L2Hint {
 public:
  /// For data that is used once: evicted first.
  ATTACCA_HD static L2Hint evict_first() {
    L2Hint hint;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(hint.policy_));
#endif
    return hint;
  }
  /// For data that is used again: evicted last.
  ATTACCA_HD static L2Hint evict_last() {
    L2Hint hint;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(hint.policy_));
#endif
    return hint;
  }

  /// `*from`, of 4, 8 or 16 bytes and aligned to its size.
  template <class T>
  ATTACCA_HD T load(const T* from) const {
    check<T>();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const std::size_t at = __cvta_generic_to_global(from);
    unsigned w[4];
    if constexpr (sizeof(T) == 4)
      asm volatile("ld.global.L2::cache_hint.b32 %0, [%1], %2;"
                   : "=r"(w[0])
                   : "l"(at), "l"(policy_)
                   : "memory");
    else if constexpr (sizeof(T) == 8)
      asm volatile("ld.global.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;"
                   : "=r"(w[0]), "=r"(w[1])
                   : "l"(at), "l"(policy_)
                   : "memory");
    else
      asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                   : "l"(at), "l"(policy_)
                   : "memory");
    T value;
    memcpy(&value, w, sizeof value);
    return value;
#else
    return *from;
#endif
  }

  /// *to = value; sizes as for `load`.
  template <class T>
  ATTACCA_HD void store(T* to, const T& value) const {
    check<T>();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const std::size_t at = __cvta_generic_to_global(to);
    unsigned w[4];
    memcpy(w, &value, sizeof value);
    if constexpr (sizeof(T) == 4)
      asm volatile("st.global.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(at), "r"(w[0]), "l"(policy_)
                   : "memory");
    else if constexpr (sizeof(T) == 8)
      asm volatile("st.global.L2::cache_hint.v2.b32 [%0], {%1, %2}, %3;" ::"l"(at), "r"(w[0]),
                   "r"(w[1]), "l"(policy_)
                   : "memory");
    else
      asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(at),
                   "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(policy_)
                   : "memory");
#else
    *to = value;
#endif
  }

 private:
  template <class T>
  ATTACCA_HD static constexpr void check() {
    static_assert(std::is_trivially_copyable_v<T>);
    static_assert((sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16) && alignof(T) == sizeof(T),
                  "a hint is for loads and stores of 4, 8 or 16 bytes, aligned to their size");
  }
  std::uint64_t policy_ = 0;
};

}  // namespace attacca
