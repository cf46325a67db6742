// fake_nccl.cpp: a libnccl.so.2 for tests: ranks are threads, memory is the host's, and every call
// waits for its end. It has the functions that attacca uses, with NCCL's own signatures. It ends
// the program where a communicator is destroyed or aborted twice, or never, or used afterwards.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "held.hpp"

namespace {

constexpr int kInvalidArgument = 4;

/// Nothing may have no address.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// The ranks of one communicator, which meet for each call.
struct World {
  explicit World(int count) : from(static_cast<std::size_t>(count)), to(from.size()) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<const char*> from;
  std::vector<char*> to;
  std::size_t arrived = 0;
  std::uint64_t round = 0;
  bool is_aborted = false;  // by any rank
};

struct Message {
  const char* data = nullptr;  // may be null, of nothing
  bool is_posted = false;
  bool is_taken = false;
};
std::mutex messages_mutex;
std::condition_variable messages_changed;
std::map<std::pair<World*, std::pair<int, int>>, Message> messages;

std::mutex worlds_mutex;
std::map<std::uint64_t, std::shared_ptr<World>> worlds;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank;
};
struct ncclUniqueId {
  char internal[128];
};

namespace {

/// Communicators that are neither destroyed nor aborted.
class Living {
 public:
  ~Living() {
    if (comms_.empty()) return;
    std::fprintf(stderr, "fake NCCL: %zu communicators were never destroyed\n", comms_.size());
    std::fflush(nullptr);
    std::_Exit(1);
  }
  void add(ncclComm* comm) {
    const std::lock_guard lock(mutex_);
    comms_.insert(comm);
  }
  void remove(ncclComm* comm, const char* call) {
    const std::lock_guard lock(mutex_);
    check(comms_.erase(comm) == 1, call);
    changed_.notify_all();
  }
  void wait_until_empty() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::minutes(1), [&] { return comms_.empty(); })) return;
    std::fprintf(stderr, "fake NCCL: a communicator was not ended for a minute\n");
    std::abort();
  }
  void expect(ncclComm* comm, const char* call) {
    const std::lock_guard lock(mutex_);
    check(comms_.count(comm) == 1, call);
  }

 private:
  static void check(bool is_living, const char* call) {
    if (is_living) return;
    std::fprintf(stderr, "fake NCCL: %s of a communicator that has ended\n", call);
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<ncclComm*> comms_;
};
Living living;

/// How long a collective takes until it looks at its communicator.
std::atomic<int> delay_in_ms{0};

/// Collectives do not end but by an abort.
std::atomic<bool> never_ends{false};

attacca::test::Held aborts;  // as NCCL's wait for graphs to go
attacca::test::Held starts;  // as NCCL's wait for other ranks

/// The last rank that comes does the work of all.
int meet(ncclComm* comm, const void* from, void* to, const std::function<int(World&)>& work) {
  std::this_thread::sleep_for(std::chrono::milliseconds(delay_in_ms));
  living.expect(comm, "a collective");
  World& world = *comm->world;
  std::unique_lock lock(world.mutex);
  world.from[static_cast<std::size_t>(comm->rank)] = static_cast<const char*>(from);
  world.to[static_cast<std::size_t>(comm->rank)] = static_cast<char*>(to);
  const std::uint64_t round = world.round;
  int result = 0;
  if (++world.arrived == world.from.size() && !never_ends) {
    result = work(world);
    world.arrived = 0;
    ++world.round;
    world.changed.notify_all();
  }
  world.changed.wait(lock, [&] { return world.round != round || world.is_aborted; });
  return result;
}

std::size_t size_of(int type) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8};
  return kSizes[type];
}

template <class T>
void add_up(World& world, std::size_t first, std::size_t count, int reduction, T* result) {
  for (std::size_t at = 0; at < count; ++at) {
    T sum = reinterpret_cast<const T*>(world.from[0])[first + at];
    for (std::size_t rank = 1; rank < world.from.size(); ++rank) {
      const T next = reinterpret_cast<const T*>(world.from[rank])[first + at];
      if (reduction == 0)
        sum = static_cast<T>(sum + next);
      else
        sum = reduction == 2 ? std::max(sum, next) : std::min(sum, next);
    }
    result[at] = sum;
  }
}

int reduce(World& world, std::size_t first, std::size_t count, int type, int reduction,
           std::vector<char>& result) {
  result.resize(count * size_of(type));
  const auto as = [&]<class T>(T) {
    add_up<T>(world, first, count, reduction, reinterpret_cast<T*>(result.data()));
    return 0;
  };
  if (reduction != 0 && reduction != 2 && reduction != 3) return kInvalidArgument;
  switch (type) {
    case 2:
      return as(std::int32_t{});
    case 3:
      return as(std::uint32_t{});
    case 4:
      return as(std::int64_t{});
    case 5:
      return as(std::uint64_t{});
    case 7:
      return as(float{});
    case 8:
      return as(double{});
    default:
      return kInvalidArgument;
  }
}

}  // namespace

extern "C" {

void fakeNcclDelay(int milliseconds) { delay_in_ms = milliseconds; }
void fakeNcclNeverEnd(bool is_so) { never_ends = is_so; }
void fakeNcclHoldAborts() { aborts.hold(); }
void fakeNcclReleaseAborts() { aborts.release(); }
void fakeNcclHoldStarts() { starts.hold(); }
/// Until so many ranks wait in one.
void fakeNcclWaitForStarts(int waiting) { starts.wait_for(waiting); }
/// Waits until no communicator is left.
void fakeNcclReleaseStarts() {
  starts.release();
  living.wait_until_empty();
}

int ncclGetVersion(int* version) { return *version = 22803, 0; }
const char* ncclGetErrorString(int error) {
  return error == kInvalidArgument ? "invalid argument" : "an error";
}
const char* ncclGetLastError(ncclComm*) { return "the fake has no log"; }

int ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<std::uint64_t> next{1};
  const std::uint64_t number = next++;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &number, sizeof number);
  return 0;
}

int ncclCommInitRank(ncclComm** comm, int ranks, ncclUniqueId id, int rank) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  if (number == 0 || ranks > 4) return kInvalidArgument;  // as if it had no room for more
  {
    const std::lock_guard lock(worlds_mutex);
    std::shared_ptr<World>& world = worlds[number];
    if (!world) world = std::make_shared<World>(ranks);
    *comm = new ncclComm{world, rank};
  }
  living.add(*comm);
  starts.pass();
  return 0;
}
int ncclCommDestroy(ncclComm* comm) {
  living.remove(comm, "ncclCommDestroy");
  delete comm;
  return 0;
}
/// What waits ends with anything, as NCCL's kernels do. A call may still use the communicator.
int ncclCommAbort(ncclComm* comm) {
  living.remove(comm, "ncclCommAbort");
  static std::vector<std::unique_ptr<ncclComm>> aborted;
  {
    const std::lock_guard lock(worlds_mutex);
    aborted.emplace_back(comm);
  }
  {
    const std::lock_guard lock(comm->world->mutex);
    comm->world->is_aborted = true;
    comm->world->changed.notify_all();
  }
  aborts.pass();
  return 0;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int reduction,
                  ncclComm* comm, void*) {
  return meet(comm, from, to, [&](World& world) {
    std::vector<char> result;
    const int error = reduce(world, 0, count, type, reduction, result);
    if (error == 0)
      for (char* target : world.to) copy_bytes(target, result.data(), result.size());
    return error;
  });
}

int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int reduction,
                      ncclComm* comm, void*) {
  return meet(comm, from, to, [&](World& world) {
    std::vector<std::vector<char>> results(world.to.size());
    int error = 0;
    for (std::size_t rank = 0; rank < results.size(); ++rank)
      error |= reduce(world, rank * count, count, type, reduction, results[rank]);
    if (error == 0)
      for (std::size_t rank = 0; rank < results.size(); ++rank)
        copy_bytes(world.to[rank], results[rank].data(), results[rank].size());
    return error;
  });
}

int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, ncclComm* comm,
                  void*) {
  return meet(comm, from, to, [&](World& world) {
    const char* source = world.from[static_cast<std::size_t>(root)];
    for (char* target : world.to)
      if (target != source) copy_bytes(target, source, count * size_of(type));
    return 0;
  });
}

int ncclAllGather(const void* from, void* to, std::size_t count, int type, ncclComm* comm, void*) {
  return meet(comm, from, to, [&](World& world) {
    const std::size_t bytes = count * size_of(type);
    for (char* target : world.to)
      for (std::size_t rank = 0; rank < world.from.size(); ++rank)
        if (target + rank * bytes != world.from[rank])
          copy_bytes(target + rank * bytes, world.from[rank], bytes);
    return 0;
  });
}

int ncclSend(const void* from, std::size_t, int, int peer, ncclComm* comm, void*) {
  std::unique_lock lock(messages_mutex);
  Message& message = messages[{comm->world.get(), {comm->rank, peer}}];
  message = {static_cast<const char*>(from), true, false};
  messages_changed.notify_all();
  messages_changed.wait(lock, [&] { return message.is_taken; });
  message = {};
  return 0;
}

int ncclRecv(void* to, std::size_t count, int type, int peer, ncclComm* comm, void*) {
  std::unique_lock lock(messages_mutex);
  Message& message = messages[{comm->world.get(), {peer, comm->rank}}];
  messages_changed.wait(lock, [&] { return message.is_posted && !message.is_taken; });
  copy_bytes(to, message.data, count * size_of(type));
  message.is_taken = true;
  messages_changed.notify_all();
  return 0;
}
}
