// nested_kernels.cpp: the bodies of kernels that spawn kernels.
#include "support/nested_kernels.hpp"

#include <atomic>
#include <stdexcept>

namespace attacca::test {

// Not anonymous: there nvcc would treat the name of a kernel that is only spawned as unused.
namespace spawning {

ATTACCA_HD unsigned fetch_add(unsigned& cell, unsigned value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(&cell, value);
#else
  return std::atomic_ref<unsigned>(cell).fetch_add(value);
#endif
}

struct Free {
  template <class Args>
  static Cost cost(const Args&) {
    return {};
  }
};

struct AddOne : Free {
  static constexpr const char* name = "add_one";
  struct Args {
    unsigned* count;
  };
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) fetch_add(*a.count, 1);
  }
};

struct Leave : Free {
  static constexpr const char* name = "leave";
  using Args = NoteArgs;
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) a.log.entries[fetch_add(*a.log.next, 1)] = a.tag;
  }
};

struct Spawn : Free {
  static constexpr const char* name = "spawn";
  using Args = SpawnArgs;
  ATTACCA_HD static void body(SpawningThread& t, const Args& a) {
    for (unsigned at = 0; at < a.times; ++at) {
      const LaunchStatus status = t.spawn<AddOne>(Grid{}, {a.count}, a.mode);
      fetch_add(a.tally.counts[static_cast<unsigned>(status)], 1);
    }
  }
};

struct SpawnInOrder : Free {
  static constexpr const char* name = "spawn_in_order";
  using Args = SpawnOrderArgs;
  ATTACCA_HD static void body(SpawningThread& t, const Args& a) {
    t.spawn<Leave>(Grid{}, {a.log, 1}, SpawnMode::tail);
    t.spawn<Leave>(Grid{}, {a.log, 10}, SpawnMode::fire_and_forget);
    t.spawn<Leave>(Grid{}, {a.log, 2}, SpawnMode::tail);
    t.spawn<Leave>(Grid{}, {a.log, 11}, SpawnMode::fire_and_forget);
    t.spawn<Leave>(Grid{}, {a.log, 3}, SpawnMode::tail);
    a.log.entries[fetch_add(*a.log.next, 1)] = 0;
  }
};

struct Tree : Free {
  static constexpr const char* name = "tree";
  using Args = TreeArgs;
  ATTACCA_HD static void body(SpawningThread& t, const Args& a) {
    if (a.depth == 0) {
      fetch_add(*a.leaves, 1);
      return;
    }
    t.spawn<Tree>(Grid{}, {a.leaves, a.depth - 1}, SpawnMode::fire_and_forget);
    t.spawn<Tree>(Grid{}, {a.leaves, a.depth - 1}, SpawnMode::tail);
  }
};

struct SpawnGrid : Free {
  static constexpr const char* name = "spawn_grid";
  using Args = SpawnGridArgs;
  ATTACCA_HD static void body(SpawningThread& t, const Args& a) {
    const LaunchStatus status = t.spawn<AddOne>(a.grid, {a.count}, SpawnMode::fire_and_forget);
    fetch_add(a.tally.counts[static_cast<unsigned>(status)], 1);
  }
};

struct SpawnThenThrow : Free {
  static constexpr const char* name = "spawn_then_throw";
  using Args = SpawnArgs;
  ATTACCA_HD static void body(SpawningThread& t, const Args& a) {
    Spawn::body(t, a);
#if !defined(__CUDA_ARCH__)
    throw std::runtime_error("gave up after spawning");
#endif
  }
};

}  // namespace spawning

using namespace spawning;

const Kernel<SpawnArgs> spawn = make_kernel<Spawn>();
const Kernel<SpawnOrderArgs> spawn_in_order = make_kernel<SpawnInOrder>();
const Kernel<TreeArgs> tree = make_kernel<Tree>();
const Kernel<SpawnGridArgs> spawn_grid = make_kernel<SpawnGrid>();
const Kernel<SpawnArgs> spawn_then_throw = make_kernel<SpawnThenThrow>();

}  // namespace attacca::test
