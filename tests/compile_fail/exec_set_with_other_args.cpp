// expect: no matching function for call to .*set\(
// An exec sets a kernel node with the argument struct of that node's kernel and no other.
#include <attacca/exec.hpp>

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

void change(Exec& exec, KernelNode<Scale::Args> node) {
#ifdef CORRECT
  exec.set(node, Scale::Args{nullptr, 2.0f});
#else
  exec.set(node, Shift::Args{nullptr, 2.0f});
#endif
}
