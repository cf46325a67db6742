// wait.hpp: waits in device code: polls with a back-off up to a deadline. On expiry the thread
// writes a record of the wait into memory that the host reads. The host's side, WaitLog, gives out
// names and reads the records.
#pragma once

#include <attacca/device/memory_model.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace attacca {
class Device;
}

namespace attacca::device {

/// A wait that timed out.
struct WaitRecord {
  std::uint32_t who;
  std::uint32_t what;
  std::uint32_t block;  // of the waiting thread; 0 on the host
  std::uint32_t thread;
  std::uint64_t wanted;
  std::uint64_t seen;
  std::uint64_t nanoseconds;
};

/// Records from threads of the device, and after them those from host threads, in memory that both
/// sides see. Each side counts the places it took by itself: on most machines the two cannot add to
/// one word. A count may pass the capacity; later records are dropped.
struct WaitLogData {
  static constexpr std::uint32_t kCapacity = 256;               // of each side
  Atomic<std::uint32_t, Scope::system> taken_by_host;           // the device's is in its own memory
  Atomic<std::uint32_t, Scope::system> written[2 * kCapacity];  // 1 once the record is there
  WaitRecord records[2 * kCapacity];
};

/// How long to wait, and where to record that it was too long. A plain value for kernel arguments;
/// made by WaitLog::patience.
struct Patience {
  std::uint64_t nanoseconds;
  WaitLogData* log;
  Atomic<std::uint32_t, Scope::gpu>* taken_by_device;
  std::uint32_t who;
  std::uint32_t what;
};

namespace detail {

ATTACCA_HD inline void give_up(const Patience& patience, std::uint64_t wanted, std::uint64_t seen,
                               std::uint64_t waited) {
  if (!patience.log) return;
  WaitRecord record{patience.who, patience.what, 0, 0, wanted, seen, waited};
#if defined(__CUDA_ARCH__)
  std::uint32_t at = patience.taken_by_device->fetch_add(1, relaxed);
  if (at >= WaitLogData::kCapacity) return;
  record.block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  record.thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
#else
  std::uint32_t at = patience.log->taken_by_host.fetch_add(1, relaxed);
  if (at >= WaitLogData::kCapacity) return;
  at += WaitLogData::kCapacity;
#endif
  patience.log->records[at] = record;
  patience.log->written[at].store(1, release);
}

/// Calls `look` until it returns true or patience ends. `wanted` and `seen()` go into the record.
template <class Memory, class Look, class Seen>
ATTACCA_HD bool wait_for(const Patience& patience, std::uint64_t wanted, Look&& look, Seen&& seen) {
  if (look()) return true;
  typename Memory::Backoff backoff;
  std::uint64_t since = 0;
  for (;;) {
    backoff.pause();
    if (look()) return true;
    if (!backoff.is_time_to_look()) continue;
    const std::uint64_t now = Memory::now();
    if (since == 0) since = now;
    if (now - since < patience.nanoseconds) continue;
    give_up(patience, wanted, seen(), now - since);
    return false;
  }
}

}  // namespace detail

/// One entry of a WaitLog, for people: "'consumer' (block 3, thread 0) waited 2 ms for 'ready' to
/// reach 5; it stood at 4".
struct WaitReport {
  std::string who;
  std::string what;
  WaitRecord record;
  std::string message() const;
};

/// Owns the memory that records are written to, and the names in them. Thread-safe except `clear`,
/// during which no thread may be waiting. Must outlive the Patience it gives out.
class WaitLog {
 public:
  /// `names` get the numbers 0, 1, ….
  explicit WaitLog(const attacca::Device& device, std::vector<std::string> names = {});
  WaitLog(WaitLog&&) noexcept;
  ~WaitLog();

  /// Throws BadArgument where the deadline is not positive.
  Patience patience(std::chrono::nanoseconds deadline, const std::string& who,
                    const std::string& what);
  /// For structures that wait for different things, each with its own clock. They fill in the
  /// numbers.
  Patience without_names();
  /// The records so far, the device's first. Does not wait.
  std::vector<WaitReport> reports() const;
  /// The number of records that found no room. Copies from the device.
  std::size_t dropped() const;
  void clear();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attacca::device
