// `attacca bench` in a build without benchmarks: they take as long to compile as half of the rest.
#include "command.hpp"

namespace attacca::tool {

void add_bench(Program& program) {
  Command command = program.command("bench", "Measure (this build has no benchmarks)");
  command.footer(
      "`make bench` builds the benchmarks and runs them, `make bench BENCH=list` names them.");
  command.takes_anything();
  command.action([] {
    throw UsageError(
        "this build has no benchmarks; `make bench` builds them and runs them all, `make bench "
        "BENCH=list` builds and names them");
  });
}

}  // namespace attacca::tool
