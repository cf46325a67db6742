// trace_choice.hpp: the options --trace and --trace-level of commands that can record what they
// run.
#pragma once

#include <attacca/trace.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace attacca::tool {

struct TraceChoice {
  std::string file;  // empty: nothing is recorded
  TraceLevel level = TraceLevel::node;
  bool has_level = false;  // it was asked for
};

void add_trace_options(Command& command, TraceChoice& choice);
/// Throws UsageError for a level of nothing, and for a file whose ending names no format.
void check(const TraceChoice& choice);

/// Whether the words are the line of a command that takes --trace.
bool is_recordable(const std::vector<std::string>& words);
/// Runs `attacca WORDS --trace FILE`. Throws ExitStatus if that fails.
void record_command(const std::vector<std::string>& words, const std::string& file);

/// Says on standard error if nodes are not recorded.
void say_what_is_missing(const Tracer& tracer, const std::string& file);
/// Writes what began after `since_ns`. Says on standard error what had no room.
void write_recorded(const Tracer& tracer, const std::string& file, std::int64_t since_ns = 0);

}  // namespace attacca::tool
