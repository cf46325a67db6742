// expect: a kernel that launches or spawns cannot be part of a persistent kernel
// A persistent kernel is one launch, so its parts may not launch anything.
#include <attacca/persistent.hpp>

using namespace attacca;

struct Step {
  static constexpr const char* name = "step";
  struct Args {
    DeviceGraph graph;
  };
  static Cost cost(const Args&) { return {}; }
#ifdef CORRECT
  static void body(Thread&, const Args&) {}
#else
  static void body(LaunchingThread& t, const Args& a) { t.launch(a.graph, LaunchMode::tail); }
#endif
};

const PersistentProgram program = make_persistent<Step>();
