// trace_choice.cpp: reads the options, and writes the file.
#include "trace_choice.hpp"

#include <fmt/core.h>

#include "values.hpp"

namespace attacca::tool {

void add_trace_options(Command& command, TraceChoice& choice) {
  command.option("--trace", text(choice.file),
                 "write what ran when to this file: .json for attacca trace and ui.perfetto.dev, "
                 ".pftrace for Perfetto, .html for a page");
  command
      .option("--trace-level",
              choice_of({"graph", "node"},
                        [&choice](std::size_t at) {
                          choice.level = at == 0 ? TraceLevel::graph : TraceLevel::node;
                        }),
              "a slice for each launch of a graph, which costs next to nothing, or for each node")
      .shows_default("node");
}

void write_recorded(const Tracer& tracer, const std::string& file) {
  write_trace(tracer.trace(), file);
  if (tracer.dropped() > 0)
    fmt::print(stderr, "--trace {}: {} slices had no room; --trace-level graph makes far fewer\n",
               file, tracer.dropped());
}

}  // namespace attacca::tool
