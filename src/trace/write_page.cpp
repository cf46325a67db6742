// write_page.cpp: puts a trace into page.html, whose bytes the assembler links in. Names come from
// anywhere, so nothing in the data can end the script.
#include <fmt/format.h>
#include <attacca/trace.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "core/linked_file.hpp"
#include "graph/print.hpp"
#include "trace/slices.hpp"

ATTACCA_LINK_FILE(attacca_trace_page, ATTACCA_TRACE_PAGE);

namespace attacca {

namespace {

/// A string of JavaScript that may stand in a script of HTML.
std::string in_script(std::string_view text) {
  const auto escape = [](std::string& out, char letter) {
    if (letter == '"' || letter == '\\') return (out += '\\') += letter, true;
    const auto code = static_cast<unsigned char>(letter);
    if (code >= 0x20 && code != 0x7f && letter != '<' && letter != '>' && letter != '&')
      return false;
    return out += fmt::format("\\u{:04x}", static_cast<unsigned>(code)), true;
  };
  return '"' + graph::escaped(text, escape) + '"';
}

std::string html(std::string_view text) {
  const auto escape = [](std::string& out, char letter) {
    if (static_cast<unsigned char>(letter) >= 0x20 && letter != '<' && letter != '&') return false;
    return out += fmt::format("&#{};", static_cast<unsigned>(static_cast<unsigned char>(letter))),
           true;
  };
  return graph::escaped(text, escape);
}

std::string details_of(const TraceSlice& slice) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", name, value);
  };
  if (!slice.graph.empty()) add("graph", slice.graph);
  if (slice.launch != 0) add("launch", fmt::to_string(slice.launch));
  if (slice.iteration != 0) add("iteration", fmt::to_string(slice.iteration));
  for (const auto& [name, value] : slice.arguments)
    add(name, std::visit([](const auto& given) { return fmt::format("{}", given); }, value));
  if (slice.cost.flops > 0) add("FLOPs", fmt::format("{:g}", slice.cost.flops));
  if (slice.cost.bytes > 0) add("bytes", fmt::format("{:g}", slice.cost.bytes));
  return text;
}

/// {tracks: [...], names: [...], slices: [[track, name, begin, length, details], ...]}
std::string data_of(const Trace& trace) {
  std::string text = "{\"tracks\":[";
  const auto out = std::back_inserter(text);
  for (const TraceTrack& track : trace.tracks)
    fmt::format_to(out, "{{\"process\":{},\"name\":{},\"ranges\":{}}},", in_script(track.process),
                   in_script(track.name), track.has_ranges);
  std::int64_t origin = INT64_MAX;
  std::unordered_map<std::string_view, std::size_t> numbers;
  text += "],\n\"names\":[";
  for (const TraceSlice& slice : trace.slices) {
    origin = std::min(origin, slice.begin_ns);
    if (numbers.try_emplace(slice.name, numbers.size()).second) text += in_script(slice.name) + ",";
  }
  text += "],\n\"slices\":[\n";
  for (const TraceSlice& slice : trace.slices)
    fmt::format_to(
        out, "[{},{},{},{},{}],\n", slice.track, numbers.at(slice.name), slice.begin_ns - origin,
        std::max<std::int64_t>(0, slice.end_ns - slice.begin_ns), in_script(details_of(slice)));
  return text + "]}";
}

}  // namespace

std::string to_trace_page(const Trace& trace, const std::string& title) {
  trace::check_slices(trace);
  std::string_view page(
      attacca_trace_page_begin,
      static_cast<std::size_t>(attacca_trace_page_end - attacca_trace_page_begin));
  const std::string shown = html(title), data = data_of(trace);
  const std::pair<std::string_view, const std::string&> marks[] = {{"@TITLE@", shown},
                                                                   {"= @TRACE@", data}};
  std::string text;
  while (!page.empty()) {
    std::size_t next = page.size();
    const std::pair<std::string_view, const std::string&>* found = nullptr;
    for (const auto& mark : marks)
      if (const std::size_t at = page.find(mark.first); at < next) {
        next = at;
        found = &mark;
      }
    text += page.substr(0, next);
    page.remove_prefix(next);
    if (!found) continue;
    if (found->first.starts_with('=')) text += "= ";
    text += found->second;
    page.remove_prefix(found->first.size());
  }
  return text;
}

}  // namespace attacca
