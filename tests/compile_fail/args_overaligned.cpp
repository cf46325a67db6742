// expect: kernel arguments are aligned to at most 16 bytes
// Argument structs are stored with an alignment of 16 bytes.
#include <attacca/kernel.hpp>

using namespace attacca;

struct Wide {
  static constexpr const char* name = "wide";
#ifdef CORRECT
  struct alignas(16) Args {
#else
  struct alignas(64) Args {
#endif
    float values[16];
  };
  static Cost cost(const Args&) { return {}; }
  static void body(Thread&, const Args&) {}
};

const Kernel<Wide::Args> wide = make_kernel<Wide>();
