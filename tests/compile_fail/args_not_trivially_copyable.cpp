// expect: make them trivially copyable
// Kernel arguments cross to the device as bytes.
#include <attacca/kernel.hpp>

#include <string>

using namespace attacca;

struct Print {
  static constexpr const char* name = "print";
  struct Args {
#ifdef CORRECT
    const char* text;
#else
    std::string text;
#endif
  };
  static Cost cost(const Args&) { return {}; }
  static void body(Thread&, const Args&) {}
};

const Kernel<Print::Args> print = make_kernel<Print>();
