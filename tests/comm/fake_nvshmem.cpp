// fake_nvshmem.cpp: a libnvshmem_host.so.3 for tests: ranks are threads, and memory is the host's.
// A rank is known by its thread when it starts and allocates, and by its memory elsewhere. One
// world at a time.
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "held.hpp"

namespace {

struct Id {
  int version;
  char bytes[124];
};
struct Attributes {
  int version;
  void* mpi_comm;
  int arguments_version;
  struct {
    int version;
    Id* id;
    int rank;
    int ranks;
  } id;
  char rest[96];
};
static_assert(sizeof(Attributes) == 144);

std::mutex mutex;
std::condition_variable changed;
int ranks = 0;
int arrived = 0;
int started = 0;
std::uint64_t round = 0;
thread_local int own_rank = -1;
/// By number of the allocation, then by rank.
struct Allocation {
  std::size_t bytes = 0;
  std::vector<std::unique_ptr<char[]>> memory;
};
std::vector<Allocation> allocations;
std::vector<std::size_t> allocated;  // by rank

/// The same place in another rank's memory.
char* place_of(const void* address, int rank) {
  const auto* at = static_cast<const char*>(address);
  for (const Allocation& allocation : allocations)
    for (const auto& memory : allocation.memory)
      if (memory && at >= memory.get() && at < memory.get() + allocation.bytes)
        return allocation.memory[static_cast<std::size_t>(rank)].get() + (at - memory.get());
  return nullptr;
}

attacca::test::Held starts_and_ends;  // as NVSHMEM's wait for other ranks

void meet(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t now = round;
  if (++arrived == ranks) {
    arrived = 0;
    ++round;
    changed.notify_all();
  }
  changed.wait(lock, [&] { return round != now; });
}

}  // namespace

extern "C" {

void fakeNvshmemHold() { starts_and_ends.hold(); }
void fakeNvshmemRelease() {
  starts_and_ends.release();
  const std::lock_guard lock(mutex);
  started = 0;
}

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = 3, *minor = 4, *patch = 5;
}
int nvshmemx_get_uniqueid(Id* id) {
  if (id->version != (1 << 16) + 128) return 1;
  std::memcpy(id->bytes, "the only one", 13);
  return 0;
}
int nvshmemx_set_attr_uniqueid_args(int rank, int count, const Id* id, Attributes* attributes) {
  if (attributes->version != (1 << 16) + 144 || std::strcmp(id->bytes, "the only one") != 0)
    return 1;
  attributes->id = {attributes->id.version, const_cast<Id*>(id), rank, count};
  return 0;
}
int nvshmemx_hostlib_init_attr(unsigned flags, Attributes* attributes) {
  if (flags != 1u << 3 || attributes->id.ranks > 4) return 7;
  starts_and_ends.pass();
  const std::lock_guard lock(mutex);
  own_rank = attributes->id.rank;
  if (started++ == 0) {
    ranks = attributes->id.ranks;
    arrived = 0;
    allocations.clear();
    allocated.assign(static_cast<std::size_t>(ranks), 0);
  }
  return 0;
}
void nvshmemx_hostlib_finalize() {
  starts_and_ends.pass();
  const std::lock_guard lock(mutex);
  --started;
}
void* nvshmem_malloc(std::size_t bytes) {
  std::unique_lock lock(mutex);
  const auto rank = static_cast<std::size_t>(own_rank);
  const std::size_t number = allocated[rank]++;
  if (allocations.size() <= number) allocations.resize(number + 1);
  Allocation& allocation = allocations[number];
  allocation.bytes = bytes;
  allocation.memory.resize(static_cast<std::size_t>(ranks));
  allocation.memory[rank] = std::make_unique<char[]>(bytes);
  char* own = allocation.memory[rank].get();
  meet(lock);
  return own;
}
void* nvshmem_ptr(const void* address, int rank) {
  const std::lock_guard lock(mutex);
  return place_of(address, rank);
}
}
