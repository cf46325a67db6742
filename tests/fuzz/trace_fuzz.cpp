// trace_fuzz.cpp: reads any bytes as a trace. What is read has a sound summary, and reads back as
// it was when it is written again.
#include <algorithm>
#include <attacca/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trace/read_chrome.hpp"
#include "trace/report.hpp"
#include "trace/summary.hpp"

namespace {

using namespace attacca;

void require(bool claim) {
  if (!claim) std::abort();
}

void check_summary(const trace::Summary& summary) {
  require(summary.wall_ns >= 0 && summary.gaps.size() <= trace::kGaps);
  for (const auto* rows : {&summary.tracks, &summary.processes})
    for (const trace::Usage& row : *rows)
      require(row.busy_ns >= 0 && row.idle_ns >= 0 && row.busy_ns + row.idle_ns == summary.wall_ns);
  for (const trace::Gap& gap : summary.gaps)
    require(gap.begin_ns >= 0 && gap.length_ns > 0 &&
            gap.begin_ns + gap.length_ns <= summary.wall_ns);
  for (const trace::NameTime& name : summary.names) require(name.count > 0 && name.self_ns >= 0);
}

/// As the writer leaves it: with times from 0.
void settle(Trace& trace) {
  std::int64_t origin = INT64_MAX;
  for (const TraceSlice& slice : trace.slices) origin = std::min(origin, slice.begin_ns);
  for (TraceSlice& slice : trace.slices) {
    slice.begin_ns -= origin;
    slice.end_ns -= origin;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    Trace read = trace::read_chrome(text, "fuzz").trace;
    const trace::Summary summary = trace::summarize(read);
    check_summary(summary);
    require(!trace::summary_report(summary, 5).empty());
    require(!trace::comparison_report(summary, trace::Summary{}, 5).empty());
    settle(read);
    const Trace again = trace::read_chrome(to_chrome_json(read), "again").trace;
    require(again == read);
  } catch (const BadArgument&) {
  }
  return 0;
}
