// expect: 'class attacca::Thread' has no member named 'launch'
// Only a body that takes a LaunchingThread can launch, so a graph knows which kernels do.
#include <attacca/kernel.hpp>

using namespace attacca;

struct Next {
  static constexpr const char* name = "next";
  struct Args {
    DeviceGraph graph;
  };
  static Cost cost(const Args&) { return {}; }
#ifdef CORRECT
  static void body(LaunchingThread& t, const Args& a) { t.launch(a.graph, LaunchMode::tail); }
#else
  static void body(Thread& t, const Args& a) { t.launch(a.graph, LaunchMode::tail); }
#endif
};

const Kernel<Next::Args> next = make_kernel<Next>();
