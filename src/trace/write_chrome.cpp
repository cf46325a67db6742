// write_chrome.cpp: writes a trace in Chrome's JSON format: a line for each event, complete events
// ("X") for slices, and metadata ("M") for the names and the order of tracks.
#include <fmt/format.h>
#include <attacca/trace.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "graph/print.hpp"
#include "trace/slices.hpp"

namespace attacca {

namespace {

std::string in_json(std::string_view text) {
  const auto escape = [](std::string& out, char letter) {
    if (letter == '"' || letter == '\\') return (out += '\\') += letter, true;
    if (static_cast<unsigned char>(letter) >= 0x20) return false;
    return out += fmt::format("\\u{:04x}", static_cast<unsigned>(letter)), true;
  };
  return '"' + graph::escaped(text, escape) + '"';
}

std::string json(const TraceSlice::Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::to_string(*number);
  return in_json(std::get<std::string>(value));
}

/// Nanoseconds in Chrome's unit, exactly.
std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string arguments_of(const TraceSlice& slice) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", in_json(key), value);
  };
  if (!slice.graph.empty()) add("graph", in_json(slice.graph));
  if (slice.launch != 0) add("launch", fmt::to_string(slice.launch));
  if (slice.iteration != 0) add("iteration", fmt::to_string(slice.iteration));
  for (const auto& [key, value] : slice.arguments) add(key, json(value));
  const Cost& cost = slice.cost;
  if (cost.flops > 0 && std::isfinite(cost.flops)) add("flops", fmt::to_string(cost.flops));
  if (cost.bytes > 0 && std::isfinite(cost.bytes)) add("bytes", fmt::to_string(cost.bytes));
  if (cost.arithmetic != Arithmetic::fp32)
    add("arithmetic", in_json(arithmetic_name(cost.arithmetic)));
  return text;
}

/// Processes and tracks are numbered from 1: viewers treat 0 as a thread of the kernel.
void add_names(std::string& text, const std::vector<TraceTrack>& tracks,
               const std::vector<std::size_t>& process_of) {
  const auto out = std::back_inserter(text);
  for (std::size_t at = 0; at < tracks.size(); ++at) {
    const auto add = [&](const char* what, const std::string& arguments) {
      fmt::format_to(out,
                     R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}},)"
                     "\n",
                     what, process_of[at], at + 1, arguments);
    };
    const bool is_first = at + 1 == process_of[at];
    if (is_first) add("process_name", R"("name":)" + in_json(tracks[at].process));
    if (is_first) add("process_sort_index", fmt::format(R"("sort_index":{})", at));
    add("thread_name", R"("name":)" + in_json(tracks[at].name) +
                           (tracks[at].has_ranges ? R"(,"ranges":true)" : ""));
    add("thread_sort_index", fmt::format(R"("sort_index":{})", at));
  }
}

}  // namespace

std::string to_chrome_json(const Trace& trace) {
  trace::check_slices(trace);
  // A process has the number of its first track.
  std::vector<std::size_t> process_of;
  for (const TraceTrack& track : trace.tracks) {
    const auto first =
        std::find_if(trace.tracks.begin(), trace.tracks.end(),
                     [&](const TraceTrack& other) { return other.process == track.process; });
    process_of.push_back(static_cast<std::size_t>(first - trace.tracks.begin()) + 1);
  }
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  add_names(text, trace.tracks, process_of);
  std::int64_t origin = trace.slices.empty() ? 0 : trace.slices.front().begin_ns;
  for (const TraceSlice& slice : trace.slices) origin = std::min(origin, slice.begin_ns);
  const auto out = std::back_inserter(text);
  for (const TraceSlice& slice : trace.slices)
    fmt::format_to(out,
                   R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}},)"
                   "\n",
                   in_json(slice.name), process_of.at(slice.track), slice.track + 1,
                   microseconds(slice.begin_ns - origin),
                   microseconds(std::max<std::int64_t>(slice.end_ns - slice.begin_ns, 0)),
                   arguments_of(slice));
  if (text.ends_with(",\n")) text.erase(text.size() - 2, 1);
  return text + "]}\n";
}

}  // namespace attacca
