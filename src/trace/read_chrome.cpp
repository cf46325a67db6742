// read_chrome.cpp: takes each event when its closing brace is read, so that a file needs no more
// memory than its slices.
#include "trace/read_chrome.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/in_quotes.hpp"

namespace attacca::trace {

namespace {

using nlohmann::json;

constexpr int kMostNesting = 64;
/// In microseconds. Some programs count from 1970; in nanoseconds sums of both fit 64 bits.
constexpr double kMostTime = 4e15;
constexpr double kMostLength = 1e12;

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  /// Called by the parser; false drops a value that was read.
  bool take(int depth, json::parse_event_t event, json& parsed) {
    using Event = json::parse_event_t;
    if (depth > kMostNesting)
      refuse(fmt::format("it is nested deeper than {} levels", kMostNesting));
    if (depth == 0 && event == Event::array_start) list_depth_ = 0;
    if (depth == 1 && event == Event::key) is_list_next_ = parsed == "traceEvents";
    if (depth == 1 && event == Event::array_start && is_list_next_) list_depth_ = 1;
    if (list_depth_ < 0) return true;
    if (depth == list_depth_ && event == Event::array_end) {
      list_depth_ = -1;
      has_list_ = true;
    } else if (depth == list_depth_ + 1) {
      if (event == Event::object_start) ++events_;
      if (event == Event::array_start || event == Event::value) {
        ++events_;
        refuse("it is not an object");
      }
      if (event == Event::object_end) {
        take_event(parsed);
        return false;
      }
    }
    return true;
  }

  ReadTrace finish() {
    events_ = 0;
    if (!has_list_) refuse("it has no list of events; a trace is a list, or has traceEvents");
    for (const auto& [track, open] : open_) read_.skipped += open.size();
    for (std::size_t at = 0; at < read_.trace.tracks.size(); ++at)
      if (const auto name = processes_.find(process_of_[at]); name != processes_.end())
        read_.trace.tracks[at].process = name->second;
    check_length();
    return std::move(read_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw BadArgument(events_ == 0 ? fmt::format("{}: {}", file_, why)
                                   : fmt::format("{}: event {}: {}", file_, events_, why));
  }

  void check_length() const {
    const std::vector<TraceSlice>& slices = read_.trace.slices;
    if (slices.empty()) return;
    const auto [first, last] = std::minmax_element(
        slices.begin(), slices.end(),
        [](const TraceSlice& a, const TraceSlice& b) { return a.begin_ns < b.begin_ns; });
    if (static_cast<double>(last->begin_ns - first->begin_ns) > kMostLength * 1000)
      refuse(fmt::format("{} and {} are more than {:g} us apart; the clock was not the same",
                         in_quotes(first->name), in_quotes(last->name), kMostLength));
  }

  void take_event(const json& event) {
    const std::string kind = text_of(event, "ph");
    if (kind == "M")
      take_name(event);
    else if (kind == "X" || kind == "B")
      begin(event, kind == "X");
    else if (kind == "E")
      end(event);
    else
      ++read_.skipped;
  }

  void take_name(const json& event) {
    const std::string what = text_of(event, "name");
    const auto arguments = event.find("args");
    if (what != "process_name" && what != "thread_name") return;
    if (arguments == event.end() || !arguments->is_object())
      refuse(fmt::format("{} without args", what));
    const std::string name = text_of(*arguments, "name");
    if (what == "process_name") {
      processes_[id_of(event, "pid")] = name;
      return;
    }
    TraceTrack& track = read_.trace.tracks[track_of(event)];
    track.name = name;
    track.has_ranges = arguments->value("ranges", json()) == json(true);
  }

  void begin(const json& event, bool is_complete) {
    TraceSlice slice;
    slice.name = text_of(event, "name");
    slice.track = track_of(event);
    slice.begin_ns = time_of(event, "ts");
    slice.end_ns = slice.begin_ns;
    if (is_complete && event.contains("dur")) {
      slice.end_ns += time_of(event, "dur", 0, kMostLength);
    }
    if (const auto arguments = event.find("args"); arguments != event.end())
      add_arguments(slice, *arguments);
    if (is_complete)
      read_.trace.slices.push_back(std::move(slice));
    else
      open_[slice.track].push_back(std::move(slice));
  }

  void end(const json& event) {
    std::vector<TraceSlice>& open = open_[track_of(event)];
    const std::int64_t at = time_of(event, "ts");
    if (open.empty()) {
      ++read_.skipped;
      return;
    }
    if (at < open.back().begin_ns)
      refuse(fmt::format("{} ends before it begins", in_quotes(open.back().name)));
    if (static_cast<double>(at - open.back().begin_ns) > kMostLength * 1000)
      refuse(fmt::format("{} lasts longer than {:g} us", in_quotes(open.back().name), kMostLength));
    open.back().end_ns = at;
    read_.trace.slices.push_back(std::move(open.back()));
    open.pop_back();
  }

  /// A name that is not known leaves fp32.
  static void take_arithmetic(Cost& cost, const std::string& name) {
    for (const Arithmetic known : {Arithmetic::bf16, Arithmetic::fp8})
      if (name == arithmetic_name(known)) cost.arithmetic = known;
  }

  /// Lists and objects inside are passed over.
  static void add_arguments(TraceSlice& slice, const json& arguments) {
    if (!arguments.is_object()) return;
    for (const auto& [key, value] : arguments.items()) {
      if (key == "graph" && value.is_string())
        slice.graph = value.get<std::string>();
      else if (key == "launch" && value.is_number_unsigned())
        slice.launch = value.get<std::uint64_t>();
      else if (key == "iteration" && value.is_number_unsigned())
        slice.iteration = value.get<std::uint64_t>();
      else if ((key == "flops" || key == "bytes") && value.is_number() && value > 0)
        (key == "flops" ? slice.cost.flops : slice.cost.bytes) = value.get<double>();
      else if (key == "arithmetic" && value.is_string())
        take_arithmetic(slice.cost, value.get<std::string>());
      else if (value.is_string())
        slice.arguments.emplace_back(key, value.get<std::string>());
      else if (value.is_number_integer() &&
               !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
        slice.arguments.emplace_back(key, value.get<std::int64_t>());
      else if (value.is_primitive() && key != "graph" && key != "arithmetic")
        slice.arguments.emplace_back(key, value.dump());  // a text, which those two would be
    }
  }

  std::string text_of(const json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) refuse(fmt::format("it has no {}", key));
    if (!found->is_string()) refuse(fmt::format("{} is not a text", key));
    return found->get<std::string>();
  }

  /// Numbers and texts are both in use. 0 where there is none.
  std::string id_of(const json& event, const char* key) const {
    const auto found = event.find(key);
    if (found == event.end()) return "0";
    if (found->is_string()) return found->get<std::string>();
    if (!found->is_number()) refuse(fmt::format("{} is neither a number nor a text", key));
    return found->dump();
  }

  std::size_t track_of(const json& event) {
    const std::string process = id_of(event, "pid"), thread = id_of(event, "tid");
    const auto [found, is_new] = tracks_.try_emplace({process, thread}, tracks_.size());
    if (is_new) {
      read_.trace.tracks.push_back({"process " + process, "thread " + thread});
      process_of_.push_back(process);
    }
    return found->second;
  }

  /// In nanoseconds.
  std::int64_t time_of(const json& event, const char* key, double least = -kMostTime,
                       double most = kMostTime) const {
    const auto found = event.find(key);
    if (found == event.end()) refuse(fmt::format("it has no {}", key));
    const double time = found->is_number() ? found->get<double>() : NAN;
    if (!(time >= least && time <= most))
      refuse(fmt::format("{} is not a number of microseconds from {:g} to {:g}", key, least, most));
    return std::llround(time * 1000);
  }

  const std::string& file_;
  ReadTrace read_;
  std::size_t events_ = 0;  // begun; the one that is read is the last
  int list_depth_ = -1;     // while inside the list of events
  bool is_list_next_ = false;
  bool has_list_ = false;
  std::map<std::pair<std::string, std::string>, std::size_t> tracks_;
  std::vector<std::string> process_of_;                  // of each track: its pid
  std::map<std::string, std::string> processes_;         // names by pid
  std::map<std::size_t, std::vector<TraceSlice>> open_;  // of each track, the innermost last
};

}  // namespace

ReadTrace read_chrome(std::string_view text, const std::string& file) {
  Reader reader(file);
  try {
    [[maybe_unused]] const json rest =
        json::parse(text, [&](int depth, json::parse_event_t event, json& parsed) {
          return reader.take(depth, event, parsed);
        });
  } catch (const json::exception& error) {
    std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line 1..."
    what.erase(0, what.find("] ") + 2);
    throw BadArgument(
        fmt::format("{}: {}; a trace is JSON, as attacca run --trace writes it", file, what));
  }
  return reader.finish();
}

}  // namespace attacca::trace
