// load.cpp: draws lengths and arrivals, and reads traces.
#include "serve/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <attacca/error.hpp>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "core/in_quotes.hpp"

namespace bench::serve {

using attacca::BadArgument;
using attacca::in_quotes;

namespace {

constexpr double kMostSeconds = 1e7;

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

std::optional<double> whole_in(std::string_view text) {
  const std::optional<double> value = number_in(text);
  return value && *value >= 1 && *value <= Lengths::kMost && std::trunc(*value) == *value
             ? value
             : std::nullopt;
}

/// A number of a trace's line, within bounds.
double field(const nlohmann::json& line, const char* key, double least, double most,
             std::size_t number) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number())
    throw BadArgument(fmt::format("line {}: '{}' must be a number", number, key));
  const auto value = found->get<double>();
  if (!(value >= least && value <= most))
    throw BadArgument(
        fmt::format("line {}: '{}' is {}; it goes from {} to {}", number, key, value, least, most));
  return value;
}

Planned planned_of(std::string_view text, std::size_t number) {
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object())
    throw BadArgument(fmt::format(
        R"(line {} is {}; {{"at": 0.5, "prompt_tokens": 128, "output_tokens": 16}} is expected)",
        number, in_quotes(text)));
  return {.at = field(line, "at", 0, kMostSeconds, number),
          .prompt_tokens =
              static_cast<unsigned>(field(line, "prompt_tokens", 1, Lengths::kMost, number)),
          .output_tokens =
              static_cast<unsigned>(field(line, "output_tokens", 1, Lengths::kMost, number))};
}

}  // namespace

double Random::uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }

double Random::exponential(double rate) { return -std::log1p(-uniform()) / rate; }

double Random::normal(double mean, double deviation) {
  const double radius = std::sqrt(2 * exponential(1));  // the method of Box and Muller
  return mean + deviation * radius * std::cos(2 * std::numbers::pi * uniform());
}

unsigned Lengths::draw(Random& random) const {
  const double drawn = kind == Kind::normal
                           ? std::round(random.normal(first, second))
                           : first + std::floor(random.uniform() * (second - first + 1));
  return static_cast<unsigned>(std::clamp(drawn, 1.0, double{kMost}));
}

std::optional<unsigned> Lengths::longest() const {
  return kind == Kind::uniform ? std::optional(static_cast<unsigned>(second)) : std::nullopt;
}

std::string Lengths::text() const {
  if (kind == Kind::normal) return fmt::format("normal:{},{}", first, second);
  return first == second ? fmt::format("{}", first) : fmt::format("{}-{}", first, second);
}

Lengths parse_lengths(std::string_view text) {
  constexpr std::string_view kNormal = "normal:";
  const bool is_normal = text.starts_with(kNormal);
  const std::string_view numbers = is_normal ? text.substr(kNormal.size()) : text;
  const std::size_t cut = numbers.find(is_normal ? ',' : '-');
  const std::string_view left = numbers.substr(0, cut);
  const std::string_view right = cut == std::string_view::npos ? left : numbers.substr(cut + 1);
  const bool is_pair = cut != std::string_view::npos;
  const auto first = is_normal ? number_in(left) : whole_in(left);
  const auto second = is_normal ? number_in(right) : whole_in(right);
  const bool is_right =
      first && second &&
      (is_normal ? is_pair && *first >= 1 && *first <= Lengths::kMost && *second >= 0
                 : *first <= *second);
  if (!is_right)
    throw BadArgument(fmt::format(
        "{} is no number of tokens; 128, 64-256 or normal:128,32 is expected, from 1 to {}",
        in_quotes(text), Lengths::kMost));
  return {is_normal ? Lengths::Kind::normal : Lengths::Kind::uniform, *first, *second};
}

std::vector<Planned> read_trace(std::string_view text) {
  std::vector<Planned> trace;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      trace.push_back(planned_of(line, number));
  }
  if (trace.empty()) throw BadArgument("there is no request in it");
  std::stable_sort(trace.begin(), trace.end(),
                   [](const Planned& a, const Planned& b) { return a.at < b.at; });
  return trace;
}

RequestSource::RequestSource(const LoadOptions& options)
    : options_(options), arrivals_(options.seed), lengths_(~options.seed) {}

double RequestSource::arrival_of(std::size_t index) {
  if (!options_.rate || index == 0) return 0;
  const double rate = *options_.rate;
  switch (options_.arrival) {
    case Arrival::poisson:
      return last_at_ + arrivals_.exponential(rate);
    case Arrival::constant:
      return static_cast<double>(index) / rate;
    case Arrival::burst:
      return std::floor(static_cast<double>(index) / rate);
  }
  return 0;
}

std::optional<Planned> RequestSource::next() {
  if (options_.requests && index_ >= *options_.requests) return {};
  Planned planned;
  if (!options_.trace.empty()) {
    if (index_ >= options_.trace.size()) return {};
    planned = options_.trace[index_];
  } else {
    planned.at = last_at_ = arrival_of(index_);
    planned.prompt_tokens = options_.prompt.draw(lengths_);
    planned.output_tokens = options_.output.draw(lengths_);
  }
  if (options_.seconds && planned.at >= *options_.seconds) return {};
  planned.index = index_++;
  return planned;
}

}  // namespace bench::serve
