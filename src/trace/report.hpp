// report.hpp: a summary, and the comparison of two, as text for a terminal.
#pragma once

#include <string>

#include "trace/summary.hpp"

namespace attacca::trace {

/// "812 ns", "12.3 us", "1.25 s"
std::string duration_text(double ns);

/// Busy and idle, gaps, and at most `most_names` names.
std::string summary_report(const Summary& summary, std::size_t most_names);

/// Wall time, busy and idle side by side, then what became slower and faster, at most `most_names`
/// of each.
std::string comparison_report(const Summary& before, const Summary& after, std::size_t most_names);

}  // namespace attacca::trace
