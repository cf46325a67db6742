// listener.hpp: functions that are called when something happens in this process, while their
// owners live.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace attacca::core {

/// Each `Event` has listeners of its own. Thread-safe.
template <class Event>
class Listener {
 public:
  /// `hear` may throw, and then the others are not told.
  explicit Listener(std::function<void(const Event&)> hear) : hear_(std::move(hear)) {
    const std::lock_guard lock(all().mutex);
    all().listeners.push_back(this);
    all().count.store(all().listeners.size(), std::memory_order_release);
  }
  ~Listener() {
    const std::lock_guard lock(all().mutex);
    std::erase(all().listeners, this);
    all().count.store(all().listeners.size(), std::memory_order_release);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Costs one load where nobody listens.
  static void tell(const Event& event) {
    if (all().count.load(std::memory_order_acquire) == 0) return;
    const std::lock_guard lock(all().mutex);  // nobody goes while it hears
    for (const Listener* listener : all().listeners) listener->hear_(event);
  }

 private:
  struct All {
    std::mutex mutex;
    std::vector<Listener*> listeners;
    std::atomic<std::size_t> count{0};
  };
  static All& all() {
    static All only;
    return only;
  }

  std::function<void(const Event&)> hear_;
};

}  // namespace attacca::core
