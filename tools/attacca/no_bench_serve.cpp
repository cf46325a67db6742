// `attacca bench serve` in a build without Boost: ATTACCA_SERVE is off, or a library was not found.
#include "command.hpp"

namespace attacca::tool {

void add_bench_serve(Command& bench) {
  Command command = bench.command("serve", "Put load on a server (this build cannot)");
  command.footer(
      "`make bench BENCH=list` builds it. So does CMake with -DATTACCA_BENCH=ON and "
      "-DATTACCA_SERVE=ON, where it finds Boost 1.81 or newer, OpenSSL and prometheus-cpp.");
  command.takes_anything();
  command.action([] {
    throw UsageError(
        "this build cannot put load on a server; `make bench BENCH=list` builds one that can");
  });
}

}  // namespace attacca::tool
