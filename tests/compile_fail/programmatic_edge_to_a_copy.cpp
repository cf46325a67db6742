// expect: 'class attacca::CopyNode' has no member named 'after_programmatic'
// Programmatic edges lead to kernels.
#include <attacca/graph.hpp>

using namespace attacca;

void build(CopyNode copy, Node producer) {
#ifdef CORRECT
  copy.after(producer);
#else
  copy.after_programmatic(producer);
#endif
}
