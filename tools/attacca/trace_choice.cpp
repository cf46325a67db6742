// trace_choice.cpp: reads the options, and writes the file.
#include "trace_choice.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "command.hpp"
#include "trace/file_format.hpp"
#include "values.hpp"

namespace attacca::tool {

void add_trace_options(Command& command, TraceChoice& choice) {
  command.option("--trace", file_name(choice.file),
                 "write what ran when to this file: .json for attacca trace and ui.perfetto.dev, "
                 ".pftrace for Perfetto, .html for a page");
  command
      .option("--trace-level",
              choice_of({"graph", "node"},
                        [&choice](std::size_t at) {
                          choice.level = at == 0 ? TraceLevel::graph : TraceLevel::node;
                          choice.has_level = true;
                        }),
              "a slice for each launch of a graph, which costs next to nothing, or for each node")
      .shows_default("node");
}

void check(const TraceChoice& choice) {
  if (choice.has_level && choice.file.empty())
    throw UsageError("--trace-level does nothing without --trace; give it a file");
  // Nobody should find out after a long run that a misspelled ending became JSON.
  const std::filesystem::path path = choice.file;
  if (!trace::format_of(path))
    throw UsageError(fmt::format("--trace {}: {} names no format; use .json, .pftrace or .html",
                                 choice.file, path.extension().string()));
}

bool is_recordable(const std::vector<std::string>& words) {
  return !words.empty() && (words[0] == "run" || words[0] == "serve" || words[0] == "bench");
}

void record_command(const std::vector<std::string>& words, const std::string& file) {
  std::vector<const char*> line{"attacca"};
  for (const std::string& word : words) line.push_back(word.c_str());
  for (const char* word : {"--trace", file.c_str()}) line.push_back(word);
  const int status = run_program(static_cast<int>(line.size()), line.data());
  if (status != 0) throw ExitStatus{status};
}

void say_what_is_missing(const Tracer& tracer, const std::string& file) {
  if (!tracer.why_not().empty())
    fmt::print(stderr, "--trace {}: {}; launches of graphs are timed by events instead of nodes\n",
               file, tracer.why_not());
}

void write_recorded(const Tracer& tracer, const std::string& file, std::int64_t since_ns) {
  Trace trace = tracer.trace();
  std::erase_if(trace.slices, [&](const TraceSlice& slice) { return slice.begin_ns < since_ns; });
  write_trace(trace, file);
  if (tracer.dropped() > 0)
    fmt::print(stderr, "--trace {}: {} slices had no room; --trace-level graph makes far fewer\n",
               file, tracer.dropped());
}

}  // namespace attacca::tool
