// read_chrome.hpp: reads Chrome's JSON trace format: a list of events, or an object with the list
// under "traceEvents". Ours come back as they were written. Of others' files complete events ("X"),
// pairs of begin and end ("B", "E") and the names of processes and threads are read.
#pragma once

#include <attacca/trace.hpp>
#include <string>
#include <string_view>

namespace attacca::trace {

struct ReadTrace {
  Trace trace;
  std::size_t skipped = 0;  // events of other kinds, and ends without a beginning
};

/// `file`: its name, for errors. Throws BadArgument that names the line or the event.
ReadTrace read_chrome(std::string_view text, const std::string& file);

}  // namespace attacca::trace
