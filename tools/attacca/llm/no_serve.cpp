// `attacca serve` in a build that did not find Boost 1.81, OpenSSL or prometheus-cpp.
#include "command.hpp"

namespace attacca::tool {

void add_serve(Program& program) {
  Command command = program.command("serve", "Serve a model over HTTP (this build cannot)");
  command.footer(
      "It needs the headers of Boost 1.81 or newer, OpenSSL and prometheus-cpp: `make deps` "
      "installs "
      "them.");
  command.takes_anything();
  command.action([] {
    throw UsageError(
        "this build has no server, because Boost 1.81, OpenSSL or prometheus-cpp was not found; "
        "run "
        "`make deps` and build again");
  });
}

}  // namespace attacca::tool
