// host_calls.cpp: the list of listeners.
#include "graph/host_calls.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "core/clock.hpp"
#include "graph/access.hpp"

namespace attacca::graph {

namespace {

struct Listeners {
  struct One {
    const DeviceImpl* device;
    HostCallListener* listener;
  };
  std::atomic<bool> has_any = false;
  std::shared_mutex mutex;  // of `all`; shared while some are told
  std::vector<One> all;
};

/// Never destroyed: streams may be used while the program ends.
Listeners& listeners() {
  static Listeners& only = *new Listeners;
  return only;
}

}  // namespace

void listen(const Device& device, HostCallListener& listener) {
  const std::lock_guard lock(listeners().mutex);
  listeners().all.push_back({&impl_of(device), &listener});
  listeners().has_any = true;
}

void stop_listening(HostCallListener& listener) {
  const std::lock_guard lock(listeners().mutex);
  std::erase_if(listeners().all,
                [&](const Listeners::One& one) { return one.listener == &listener; });
  listeners().has_any = !listeners().all.empty();
}

HostCall::HostCall(const Device& device, const char* kind)
    : device_(device),
      kind_(listeners().has_any.load(std::memory_order_relaxed) ? kind : nullptr),
      begin_ns_(kind_ ? now_ns() : 0) {}

void HostCall::tell() const noexcept {
  const std::int64_t end_ns = now_ns();
  const std::shared_lock lock(listeners().mutex);
  for (const Listeners::One& one : listeners().all)
    if (one.device == &impl_of(device_)) one.listener->called(kind_, begin_ns_, end_ns);
}

}  // namespace attacca::graph
