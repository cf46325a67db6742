// raised_limits.hpp: what functions are allowed, by function. A limit is only ever raised: another
// thread may rely on it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace attacca::cuda {

/// Thread-safe. What a thread has asked for lately it finds again without a lock.
class RaisedLimits {
 public:
  /// Calls `set(value)` unless `function` has as much already. What `set` throws comes out, and
  /// nothing was raised then.
  template <class Set>
  void raise(const void* function, std::size_t value, Set&& set) {
    Recent& recent = recent_of(function);
    if (recent.owner == id_ && recent.function == function && recent.value >= value) return;
    const std::lock_guard lock(mutex_);
    std::size_t& limit = limits_[function];
    if (limit < value) {
      set(value);
      limit = value;
    }
    recent = {id_, function, limit};
  }

 private:
  struct Recent {
    std::uint64_t owner = 0;
    const void* function = nullptr;
    std::size_t value = 0;
  };
  static Recent& recent_of(const void* function) {
    constexpr std::size_t kKept = 64;
    thread_local std::array<Recent, kKept> recents;
    return recents[reinterpret_cast<std::uintptr_t>(function) / 16 % kKept];
  }
  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  std::uint64_t id_ = next_id();
  std::mutex mutex_;
  std::unordered_map<const void*, std::size_t> limits_;
};

}  // namespace attacca::cuda
