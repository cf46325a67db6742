// raised_limits.hpp: limits by function. A limit is only ever raised, because another thread may
// rely on it.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

namespace attacca::cuda {

/// Thread-safe.
class RaisedLimits {
 public:
  /// Calls `set(value)` unless `function` has that limit or a higher one. If `set` throws, the
  /// limit stays as it was.
  template <class Set>
  void raise(const void* function, std::size_t value, Set&& set) {
    const std::lock_guard lock(mutex_);
    std::size_t& limit = limits_[function];
    if (limit >= value) return;
    set(value);
    limit = value;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::size_t> limits_;
};

}  // namespace attacca::cuda
