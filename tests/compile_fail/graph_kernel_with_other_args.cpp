// expect: no known conversion for argument 3 from .Shift::Args. to .*Scale::Args
// A kernel in a graph takes its own argument struct and no other.
#include <attacca/graph.hpp>

using namespace attacca;

struct Scale {
  struct Args {
    float* x;
    float factor;
  };
};
struct Shift {
  struct Args {
    float* x;
    float by;
  };
};
extern const Kernel<Scale::Args> scale;

void build(Graph& graph) {
#ifdef CORRECT
  graph.kernel(scale, Grid{}, Scale::Args{nullptr, 1.0f});
#else
  graph.kernel(scale, Grid{}, Shift::Args{nullptr, 1.0f});
#endif
}
