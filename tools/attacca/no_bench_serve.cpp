// `attacca bench serve` in a build without the server's HTTP library.
#include "command.hpp"

namespace attacca::tool {

void add_bench_serve(Command& bench) {
  Command command = bench.command("serve", "Put load on a server (this build cannot)");
  command.footer(
      "It needs ATTACCA_LLM and the headers of Boost 1.81 or newer: `make deps` installs them.");
  command.takes_anything();
  command.action([] {
    throw UsageError(
        "this build cannot put load on a server, because it was configured without ATTACCA_LLM or "
        "did not find Boost 1.81; run `make deps` and build again");
  });
}

}  // namespace attacca::tool
