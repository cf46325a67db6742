// expect: 'class attacca::PlainNode' has no member named 'enabled'
// Only kernels, copies and fills can be switched off.
#include <attacca/graph.hpp>

using namespace attacca;

void build(PlainNode call, FillNode fill) {
#ifdef CORRECT
  fill.enabled(false);
  call.after(fill);
#else
  call.enabled(false);
#endif
}
