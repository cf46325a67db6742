// raised_limits.hpp: what functions are allowed, by function. A limit is only ever raised: another
// thread may rely on it.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

namespace attacca::cuda {

/// Thread-safe.
class RaisedLimits {
 public:
  /// Calls `set(value)` unless `function` has as much already. What `set` throws comes out, and
  /// nothing was raised then.
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
