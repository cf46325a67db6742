// expect: kernel arguments are limited to 4000 bytes
// An argument struct has a size limit; larger data goes behind a pointer.
#include <attacca/kernel.hpp>

using namespace attacca;

struct Table {
  static constexpr const char* name = "table";
  struct Args {
#ifdef CORRECT
    const float* values;
#else
    float values[1001];
#endif
  };
  static Cost cost(const Args&) { return {}; }
  static void body(Thread&, const Args&) {}
};

const Kernel<Table::Args> table = make_kernel<Table>();
