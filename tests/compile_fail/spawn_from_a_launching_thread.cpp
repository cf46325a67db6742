// expect: 'class attacca::LaunchingThread' has no member named 'spawn'
// Only a body that takes a SpawningThread can spawn kernels.
#include <attacca/nested.hpp>

using namespace attacca;

struct Leaf {
  static constexpr const char* name = "leaf";
  struct Args {
    int* x;
  };
  static Cost cost(const Args&) { return {}; }
  static void body(Thread&, const Args&) {}
};

struct Root {
  static constexpr const char* name = "root";
  using Args = Leaf::Args;
  static Cost cost(const Args&) { return {}; }
#ifdef CORRECT
  static void body(SpawningThread& t, const Args& a) { t.spawn<Leaf>(Grid{}, a, SpawnMode::tail); }
#else
  static void body(LaunchingThread& t, const Args& a) { t.spawn<Leaf>(Grid{}, a, SpawnMode::tail); }
#endif
};

const Kernel<Root::Args> root = make_kernel<Root>();
