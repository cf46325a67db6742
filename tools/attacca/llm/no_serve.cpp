// `attacca serve` in a build without the server: ATTACCA_SERVE is off, or a library was not found.
#include <attacca/error.hpp>

#include "command.hpp"

namespace attacca::tool {

void add_serve(Program& program) {
  Command command = program.command("serve", "Serve a model over HTTP (this build cannot)");
  command.footer(
      "`make demo` builds the server. So does CMake with -DATTACCA_SERVE=ON, where it finds Boost "
      "1.81 or newer, OpenSSL and prometheus-cpp: `make deps` installs them.");
  command.takes_anything();
  command.action([] {
    throw Error(
        "this build has no server; `make demo` builds one, and so does CMake with "
        "-DATTACCA_SERVE=ON after `make deps`");
  });
}

}  // namespace attacca::tool
