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
#include <attacca/device/records_ref.hpp>
#include <attacca/memory.hpp>
#include <bit>
#include <vector>

namespace attacca::device {

class Records {
 public:
  /// Keeps the newest `capacity` records at least. Throws BadArgument for more than any memory
  /// holds.
  Records(const attacca::Device& device, std::size_t capacity)
      : items_(device, places(capacity)), written_(device, 1) {
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
  static std::size_t places(std::size_t capacity) {
    (void)attacca::detail::array_bytes(capacity, sizeof(Record));  // bit_ceil needs it
    return std::bit_ceil(std::max<std::size_t>(capacity, 1));
  }

  Buffer<Record> items_;
  Buffer<RecordsRef::Count> written_;
};

}  // namespace attacca::device
