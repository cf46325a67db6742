// expect: no known conversion for argument 3 from .Shift::Args. to .*Scale::Args
// A kernel on a stream takes its own argument struct and no other.
#include <attacca/device.hpp>

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

void enqueue(StreamRef stream) {
#ifdef CORRECT
  stream.kernel(scale, Grid{}, Scale::Args{nullptr, 1.0f});
#else
  stream.kernel(scale, Grid{}, Shift::Args{nullptr, 1.0f});
#endif
}
