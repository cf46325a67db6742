// read_log.cpp: finds the objects and table rows on a line, and takes the fields of a step from
// them. Objects are read leniently: JSON and Python's spelling both do, and unknown fields are
// passed over. What must hold is that quotes and brackets close, so a line that was cut off is not
// taken for a whole one.
#include "planner/read_log.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/in_quotes.hpp"

namespace attacca::planner {

namespace {

constexpr auto kNowhere = std::string_view::npos;
constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr double kMostMicroseconds = 1e12;

/// All of the text as a number; none if it is something else.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == kNowhere) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Whether a number or a name without quotes ends before this letter.
bool ends_word(char letter) {
  static constexpr auto kEnds = [] {
    std::array<bool, 256> ends{};
    for (const char end : std::string_view(",:{}[]\"' \t\r\n\v\f"))
      ends[static_cast<unsigned char>(end)] = true;
    return ends;
  }();
  return kEnds[static_cast<unsigned char>(letter)];
}

/// The place of the quote that ends the string which begins at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == quote)
      return at;
  }
  return kNowhere;
}

/// Calls `take(key, value)` for every field of the object that begins at `at`, and of the objects
/// in it. Returns the place behind the object, or kNowhere if it does not end.
template <class Take>
std::size_t scan_object(std::string_view text, std::size_t at, const Take& take) {
  constexpr int kMostNesting = 64;
  std::uint64_t objects = 0;  // a bit for each open bracket, the innermost last: it is a {
  int depth = 0;
  std::string_view key, last;
  const auto give = [&](std::string_view value) {
    if (!key.empty()) take(key, value);
    last = value;
    key = {};
  };
  while (at < text.size()) {
    const char letter = text[at];
    switch (letter) {
      case '{':
      case '[':
        if (++depth > kMostNesting) return kNowhere;
        objects = objects << 1 | (letter == '{' ? 1 : 0);
        key = last = {};
        break;
      case '}':
      case ']':
        if ((objects & 1) != (letter == '}' ? 1 : 0)) return kNowhere;
        objects >>= 1;
        key = last = {};
        if (--depth == 0) return at + 1;
        break;
      case ':':
        key = last;
        break;
      case ',':
        key = last = {};
        break;
      case '"':
      case '\'': {
        const std::size_t end = end_of_string(text, at);
        if (end == kNowhere) return kNowhere;
        give(text.substr(at + 1, end - at - 1));
        at = end;
        break;
      }
      default: {
        if (kBlanks.find(letter) != kNowhere) break;
        std::size_t end = at + 1;
        while (end < text.size() && !ends_word(text[end])) ++end;
        give(text.substr(at, end - at));
        at = end - 1;
      }
    }
    ++at;
  }
  return kNowhere;
}

/// What the fields of a step say, as they are written; empty where there is no such field.
struct Fields {
  std::string_view batch, mode, tokens, size, hit, count, microseconds;  // attacca
  std::string_view context_tokens, generations, milliseconds;            // TensorRT-LLM

  void take(std::string_view key, std::string_view value) {
    struct Name {
      std::string_view text;
      std::string_view Fields::*field;
    };
    static constexpr Name kNames[] = {{"batch", &Fields::batch},
                                      {"mode", &Fields::mode},
                                      {"tokens", &Fields::tokens},
                                      {"size", &Fields::size},
                                      {"hit", &Fields::hit},
                                      {"count", &Fields::count},
                                      {"microseconds", &Fields::microseconds},
                                      {"numCtxTokens", &Fields::context_tokens},
                                      {"numGenRequests", &Fields::generations},
                                      {"iterLatencyMS", &Fields::milliseconds}};
    for (const Name& name : kNames)
      if (name.text == key) this->*name.field = value;
  }
};

/// A time that can be believed, else 0.
double time_of(std::string_view text, double unit) {
  const double microseconds = number<double>(text).value_or(0) * unit;
  return microseconds > 0 && microseconds < kMostMicroseconds ? microseconds : 0;
}

bool is_believable(const Step& step) {
  return step.tokens >= 1 && step.tokens <= kMostTokens && step.count >= 1 &&
         step.count <= kMostCount && (step.size == 0 || step.size >= step.tokens);
}

/// None if a value is no number, or out of range.
std::optional<Step> attacca_step(const Fields& fields) {
  const std::string_view kind = fields.batch.empty() ? fields.mode : fields.batch;
  const auto tokens = number<std::uint32_t>(fields.tokens);
  const auto size = fields.size.empty() ? tokens : number<std::uint32_t>(fields.size);
  const auto count = fields.count.empty() ? 1 : number<std::uint64_t>(fields.count);
  if (!tokens || !size || !count || (kind != "decode" && kind != "mixed")) return std::nullopt;
  const Step step{.kind = kind == "decode" ? Kind::decode : Kind::mixed,
                  .tokens = *tokens,
                  .size = fields.hit == "false" ? 0 : *size,
                  .microseconds = time_of(fields.microseconds, 1),
                  .count = *count};
  return is_believable(step) ? std::optional(step) : std::nullopt;
}

/// Tokens of an iteration, which is a decode step if it reads no prompt; none if a value is no
/// number. How large its graph was is not in the log, so padding counts as none.
std::optional<Step> tensorrt_step(const Fields& fields) {
  const auto context =
      fields.context_tokens.empty() ? 0 : number<std::uint32_t>(fields.context_tokens);
  const auto generations =
      fields.generations.empty() ? 0 : number<std::uint32_t>(fields.generations);
  if (!context || !generations || *context > kMostTokens || *generations > kMostTokens)
    return std::nullopt;
  const std::uint32_t tokens = *context + *generations;
  return Step{.kind = *context == 0 ? Kind::decode : Kind::mixed,
              .tokens = tokens,
              .size = tokens,
              .microseconds = time_of(fields.milliseconds, 1000)};
}

}  // namespace

const char* source_name(Source source) {
  constexpr const char* kNames[] = {"attacca", "TensorRT-LLM", "vLLM"};
  return kNames[static_cast<std::size_t>(source)];
}

const char* skip_reason(Skip skip) {
  constexpr const char* kReasons[] = {"text that is no step", "an object that does not end",
                                      "an object that is no step", "an iteration without tokens",
                                      "a value that is no number or out of range"};
  return kReasons[static_cast<std::size_t>(skip)];
}

void LogReader::add(Source source, const Step& step) {
  traffic_.add(step);
  steps_[static_cast<std::size_t>(source)] += step.count;
}

void LogReader::skip(Skip why) {
  Skipped& skipped = skipped_[static_cast<std::size_t>(why)];
  if (skipped.count++ == 0) skipped.first = fmt::format("{}:{}", name_, line_);
}

void LogReader::read(std::string_view text, const std::string& name) {
  name_ = name;
  line_ = 0;
  has_full_decodes_ = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_;
    if (line.empty()) continue;
    ++lines_;
    read_line(line);
  }
}

void LogReader::read_line(std::string_view line) {
  // vLLM's logger may begin each line of a table with the time and the place.
  constexpr std::string_view kMode = "- Mode: ";
  if (line.find('{') != kNowhere) {
    read_objects(line);
  } else if (const std::size_t row = line.find('|'); row != kNowhere) {
    read_row(line.substr(row));
  } else {
    if (const std::size_t at = line.find(kMode); at != kNowhere) {
      const std::string_view mode = line.substr(at + kMode.size());
      has_full_decodes_ =
          mode.ends_with("FULL_AND_PIECEWISE") || mode.ends_with("FULL_DECODE_ONLY");
    }
    skip(Skip::other_text);
  }
}

void LogReader::read_objects(std::string_view line) {
  for (std::size_t at = line.find('{'); at != kNowhere; at = line.find('{', at)) {
    Fields fields;
    at = scan_object(line, at, [&](auto key, auto value) { fields.take(key, value); });
    const bool is_ours = !fields.tokens.empty() && (!fields.batch.empty() || !fields.mode.empty());
    if (at == kNowhere) {
      skip(Skip::cut_off);
      return;
    }
    if (!is_ours && fields.generations.empty() && fields.context_tokens.empty()) {
      skip(Skip::no_step);
      continue;
    }
    const auto step = is_ours ? attacca_step(fields) : tensorrt_step(fields);
    if (!step)
      skip(Skip::bad_value);
    else if (step->tokens == 0)
      skip(Skip::idle);
    else
      add(is_ours ? Source::attacca : Source::tensorrt_llm, *step);
  }
}

/// | unpadded tokens | padded tokens | paddings | mode | count |
void LogReader::read_row(std::string_view row) {
  std::array<std::string_view, 5> cells;
  std::size_t count = 0;
  for (std::size_t at = 1; at < row.size();) {
    const std::size_t end = std::min(row.find('|', at), row.size());
    if (count < cells.size()) cells[count] = trimmed(row.substr(at, end - at));
    ++count;
    at = end + 1;
  }
  const auto tokens = number<std::uint32_t>(cells[0]);
  if (count != cells.size() || !tokens) {  // the head of a table
    skip(Skip::other_text);
    return;
  }
  const auto padded = number<std::uint32_t>(cells[1]);
  const auto steps = number<std::uint64_t>(cells[4]);
  const Step step{.kind = cells[3] == "FULL" && has_full_decodes_ ? Kind::decode : Kind::mixed,
                  .tokens = *tokens,
                  .size = cells[3] == "NONE" ? 0 : padded.value_or(0),
                  .count = steps.value_or(0)};
  if (padded && steps && is_believable(step))
    add(Source::vllm, step);
  else
    skip(Skip::bad_value);
}

void read_distribution(std::string_view text, Kind kind, Traffic& traffic) {
  do {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view part = trimmed(text.substr(0, end));
    const std::size_t colon = part.find(':');
    const auto tokens = number<std::uint32_t>(part.substr(0, colon));
    const auto count = colon == kNowhere ? 1 : number<std::uint64_t>(part.substr(colon + 1));
    const Step step{.kind = kind,
                    .tokens = tokens.value_or(0),
                    .size = tokens.value_or(0),
                    .count = count.value_or(0)};
    if (!tokens || !count || !is_believable(step))
      throw BadArgument(fmt::format(
          "{} is no TOKENS:COUNT; give the tokens of a step, 1 to {}, and how many such steps "
          "there are, 1 to {}, as in 1:900,8:30",
          in_quotes(part), kMostTokens, kMostCount));
    traffic.add(step);
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
}

}  // namespace attacca::planner
