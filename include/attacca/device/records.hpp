// records.hpp: a ring of records that kernels write: what happened, and when by the device's own
// clock. It keeps the newest. Profilers see the first pass of a loop on the device and nothing
// inside a graph that the device launches; records see every pass.
//
//   const device::Records records(device, 4096);
//   graph.kernel(mark(), Grid{}, {records.ref(), kBegins, size});  // a node; see attacca/mark.hpp
//   a.records.add(kBegins, size);                                  // or a line in a kernel
//   ...
//   stream.synchronize();
//   for (const device::Record& record : records.read()) ...
#pragma once

#include <algorithm>
#include <attacca/device/memory_model.hpp>
#include <attacca/memory.hpp>
#include <bit>
#include <vector>

namespace attacca::device {

struct Record {
  std::uint64_t at;  // nanoseconds; the clock's origin is the device's own
  std::uint32_t what;
  std::uint32_t value;
};

/// Records in the form of kernel arguments; Records owns them. A default one keeps nothing.
struct RecordsRef {
  using Count = Atomic<std::uint64_t, Scope::gpu>;

  Count* written = nullptr;
  Record* items = nullptr;
  std::uint64_t mask = 0;  // capacity - 1

  /// Takes about a microsecond of the calling thread on a GPU; many threads may call at once.
  ATTACCA_HD void add(std::uint32_t what, std::uint32_t value = 0) const {
    if (items) add_at(NativeMemory::now(), what, value);
  }
  /// For a time that was taken before, where there was no microsecond to spare.
  ATTACCA_HD void add_at(std::uint64_t at, std::uint32_t what, std::uint32_t value = 0) const {
    if (!items) return;
    items[written->fetch_add(1, relaxed) & mask] = {at, what, value};
  }
};

class Records {
 public:
  /// Keeps the newest `capacity` records at least.
  Records(const attacca::Device& device, std::size_t capacity)
      : items_(device, std::bit_ceil(std::max<std::size_t>(capacity, 1))), written_(device, 1) {
    clear();
  }

  RecordsRef ref() const { return {written_.data(), items_.data(), items_.size() - 1}; }

  // REQUIRES, for all below: no kernel that may add a record runs.
  void clear() { written_.write(std::vector<RecordsRef::Count>(1)); }
  /// How many were added since the beginning, or since `clear`.
  std::uint64_t written() const { return written_.read()[0].load(relaxed); }
  /// The newest, as many as are kept, oldest first.
  std::vector<Record> read() const {
    const std::uint64_t count = written();
    std::vector<Record> ring = items_.read(), records;
    for (std::uint64_t at = count < ring.size() ? 0 : count - ring.size(); at < count; ++at)
      records.push_back(ring[at % ring.size()]);
    return records;
  }

 private:
  Buffer<Record> items_;
  Buffer<RecordsRef::Count> written_;
};

}  // namespace attacca::device
