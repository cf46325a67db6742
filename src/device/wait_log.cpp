// wait_log.cpp: the host's side of waiting: gives out names, and turns the records of waiting
// threads into reports.
#include <attacca/device/wait.hpp>
#include <attacca/error.hpp>
#include <attacca/memory.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace attacca::device {

namespace {

/// "50 ms", "1.25 s": three digits, in the largest unit that leaves a digit before the point.
std::string spelled(std::uint64_t nanoseconds) {
  constexpr const char* kUnits[] = {"ns", "µs", "ms", "s"};
  auto value = static_cast<double>(nanoseconds);
  int unit = 0;
  for (; unit < 3 && value >= 999.5; ++unit) value /= 1000;
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

}  // namespace

struct WaitLog::Impl {
  explicit Impl(const Device& on) : memory(on, 1, Visibility::shared), taken_by_device(on, 1) {
    clear();
  }

  WaitLogData& data() const { return *memory.data(); }
  void clear() {
    std::memset(static_cast<void*>(memory.data()), 0, memory.bytes());
    const Atomic<std::uint32_t, Scope::gpu> none(0);
    taken_by_device.write(std::span(&none, 1));
  }

  /// The number of a name; equal names get one number. REQUIRES: the mutex is held.
  std::uint32_t number_of(const std::string& name) {
    const auto at =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size()) names.push_back(name);
    return static_cast<std::uint32_t>(at);
  }

  Buffer<WaitLogData> memory;
  Buffer<Atomic<std::uint32_t, Scope::gpu>> taken_by_device;
  std::mutex mutex;  // guards names
  std::vector<std::string> names;
};

WaitLog::WaitLog(const attacca::Device& device, std::vector<std::string> names)
    : impl_(std::make_unique<Impl>(device)) {
  impl_->names = std::move(names);
}
WaitLog::WaitLog(WaitLog&&) noexcept = default;
WaitLog::~WaitLog() = default;

Patience WaitLog::patience(std::chrono::nanoseconds deadline, const std::string& who,
                           const std::string& what) {
  if (deadline.count() <= 0)
    throw BadArgument(
        fmt::format("'{}' would wait for '{}' with a deadline of {} ns, which ends before anything "
                    "can happen; give it a positive one, such as 1s",
                    who, what, deadline.count()));
  const std::lock_guard lock(impl_->mutex);
  return {static_cast<std::uint64_t>(deadline.count()), &impl_->data(),
          impl_->taken_by_device.data(), impl_->number_of(who), impl_->number_of(what)};
}

Patience WaitLog::without_names() {
  return {0, &impl_->data(), impl_->taken_by_device.data(), 0, 0};
}

std::vector<WaitReport> WaitLog::reports() const {
  WaitLogData& data = impl_->data();
  const std::lock_guard lock(impl_->mutex);
  std::vector<WaitReport> reports;
  for (std::uint32_t at = 0; at < 2 * WaitLogData::kCapacity; ++at) {
    if (data.written[at].load(acquire) == 0) continue;  // free, or its waiter is still writing
    const WaitRecord& record = data.records[at];
    reports.push_back({impl_->names.at(record.who), impl_->names.at(record.what), record});
  }
  return reports;
}

std::size_t WaitLog::dropped() const {
  const auto beyond = [](std::uint32_t taken) {
    return taken - std::min(taken, WaitLogData::kCapacity);
  };
  return beyond(impl_->data().taken_by_host.load(relaxed)) +
         beyond(impl_->taken_by_device.read().front().load(relaxed));
}

void WaitLog::clear() { impl_->clear(); }

std::string WaitReport::message() const {
  return fmt::format("'{}' (block {}, thread {}) waited {} for '{}' to reach {}; it stood at {}",
                     who, record.block, record.thread, spelled(record.nanoseconds), what,
                     record.wanted, record.seen);
}

}  // namespace attacca::device
