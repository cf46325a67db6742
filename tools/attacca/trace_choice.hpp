// trace_choice.hpp: the options --trace and --trace-level of commands that can record what they
// run.
#pragma once

#include <attacca/trace.hpp>
#include <string>

#include "command_line.hpp"

namespace attacca::tool {

struct TraceChoice {
  std::string file;  // empty: nothing is recorded
  TraceLevel level = TraceLevel::node;
};

void add_trace_options(Command& command, TraceChoice& choice);

/// Writes what was recorded. Says on standard error what had no room.
void write_recorded(const Tracer& tracer, const std::string& file);

}  // namespace attacca::tool
