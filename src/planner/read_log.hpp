// read_log.hpp: reads the steps of an engine's log. Every line speaks for itself, so one file may
// mix the formats and their versions, and hold other text:
//   attacca        {"batch":"decode","tokens":8,"size":8,"microseconds":1590.2}  of --step-log
//   TensorRT-LLM   {"iterLatencyMS":9.1,"inflightBatchingStats":{"numCtxTokens":0,...}}  as JSON,
//                  or as Python prints it, which is what trtllm-bench --iteration_log writes
//   vLLM           | 6 | 8 | 2 | FULL | 31 |  of --cudagraph-metrics
//   by hand        {"batch":"decode","tokens":8,"count":500}, or 8:500 for `read_distribution`
// A line that holds no step, or one that makes no sense, is skipped and counted by its reason.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "planner/traffic.hpp"

namespace attacca::planner {

/// A log with a larger step, or with more steps in one line, is not believed.
inline constexpr std::uint32_t kMostTokens = 1u << 20;
inline constexpr std::uint64_t kMostCount = 1'000'000'000'000;

enum class Source : std::uint8_t { attacca, tensorrt_llm, vllm };
inline constexpr std::size_t kSources = 3;
const char* source_name(Source source);

/// Why a line, or an object on it, was skipped.
enum class Skip : std::uint8_t { other_text, cut_off, no_step, idle, bad_value };
inline constexpr std::size_t kSkips = 5;
/// "text that is no step", ...
const char* skip_reason(Skip skip);

class LogReader {
 public:
  struct Skipped {
    std::uint64_t count = 0;
    std::string first;  // "steps.jsonl:7"
  };

  /// Borrows the traffic that it adds to.
  explicit LogReader(Traffic& traffic) : traffic_(traffic) {}

  /// `name`: the file's, for `Skipped::first`.
  void read(std::string_view text, const std::string& name);

  std::uint64_t lines() const { return lines_; }  // that are not empty
  const std::array<std::uint64_t, kSources>& steps() const { return steps_; }
  const std::array<Skipped, kSkips>& skipped() const { return skipped_; }

 private:
  void read_line(std::string_view line);
  void read_objects(std::string_view line);
  void read_row(std::string_view row);
  void add(Source source, const Step& step);
  void skip(Skip why);

  Traffic& traffic_;
  std::uint64_t lines_ = 0;
  std::array<std::uint64_t, kSources> steps_ = {};
  std::array<Skipped, kSkips> skipped_;
  std::string name_;
  std::uint64_t line_ = 0;        // in this file
  bool has_full_decodes_ = true;  // vLLM: only decode steps run in whole graphs
};

/// Steps given by hand: "1:900,8:30" is 900 steps of one token and 30 of eight; "8" is one step.
/// Throws BadArgument that names the part and the remedy.
void read_distribution(std::string_view text, Kind kind, Traffic& traffic);

}  // namespace attacca::planner
