// number_filters.cpp: the filters that give numbers, and `default`.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/chat/filters.hpp"
#include "text/chat/operators.hpp"
#include "text/chat/strings.hpp"
#include "text/chat/utf8.hpp"

namespace attacca::text::chat {
namespace {

constexpr std::int64_t kMostDigits = 300;
constexpr double kMostInteger = 9.2e18;  // smaller numbers fit into 64 bits

Value default_to(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("default", {"default_value", "boolean"});
  const bool is_missing = input.is_undefined() || (bound.flag(1, false) && !is_true(input));
  if (!is_missing) return input;
  return bound[0] ? *bound[0] : Value::text(Text());
}

Value length(Budget&, const Value& input, const Arguments& arguments) {
  arguments.bind("length", {});
  std::size_t count = 0;
  if (const Text* text = input.as_text())
    count = count_characters(text->bytes());
  else if (const List* list = input.as_list())
    count = list->items.size();
  else if (const Dict* dict = input.as_dict())
    count = dict->entries.size();
  else if (!input.is_undefined())
    throw Problem(input.kind() + " has no length");
  return Value::integer(static_cast<std::int64_t>(count));
}

std::optional<double> parse_real(std::string_view digits) {
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> parse_integer(std::string_view digits, int base) {
  if (digits.starts_with('+')) digits.remove_prefix(1);
  std::int64_t number = 0;
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// The value as a number, if it is one or is text that spells one.
std::optional<double> real_of(const Value& value) {
  if (value.is_undefined()) throw Problem(value.why());
  if (const double* real = value.as_real()) return *real;
  if (const std::int64_t* integer = value.as_integer()) return static_cast<double>(*integer);
  if (const bool* boolean = value.as_boolean()) return *boolean ? 1.0 : 0.0;
  if (const Text* text = value.as_text()) return parse_real(strip(*text, Side::both).bytes());
  return std::nullopt;
}

Value to_integer(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("int", {"default", "base"});
  const auto base = static_cast<int>(std::clamp<std::int64_t>(bound.integer(1, 10), 2, 36));
  if (const std::int64_t* integer = input.as_integer())
    return Value::integer(*integer, input.origin());
  if (const Text* text = input.as_text())
    if (const auto number = parse_integer(strip(*text, Side::both).bytes(), base))
      return Value::integer(*number, input.origin());
  const std::optional<double> real = real_of(input);
  if (real && std::abs(*real) < kMostInteger)
    return Value::integer(static_cast<std::int64_t>(*real), input.origin());
  return bound[0] ? *bound[0] : Value::integer(0);
}

Value to_real(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("float", {"default"});
  if (const std::optional<double> real = real_of(input)) return Value::real(*real, input.origin());
  return bound[0] ? *bound[0] : Value::real(0);
}

/// Rounds as Python does: the exact value, half to even.
double round_to(double number, std::int64_t digits) {
  if (digits < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::isinf(scale) ? 0 : std::nearbyint(number / scale) * scale;
  }
  const std::string text = fmt::format("{:.{}f}", number, digits);
  return parse_real(text).value_or(number);
}

Value round_number(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("round", {"precision", "method"});
  const std::int64_t digits = std::clamp(bound.integer(0, 0), -kMostDigits, kMostDigits);
  const std::string method = bound[1] ? bound.text(1).bytes() : "common";
  const bool is_whole = input.as_integer() || input.as_boolean();
  if (!is_whole && !input.as_real()) throw Problem("'round' takes a number, not " + input.kind());
  const double number = *real_of(input);
  if (method == "common") {
    if (is_whole && digits >= 0) return input;
    const double rounded = round_to(number, digits);
    return is_whole && std::abs(rounded) < kMostInteger
               ? Value::integer(static_cast<std::int64_t>(rounded), input.origin())
               : Value::real(rounded, input.origin());
  }
  if (method != "ceil" && method != "floor")
    throw Problem(fmt::format("'round' has no method '{}'; use common, ceil or floor", method));
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = number * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale,
                     input.origin());
}

Value absolute(Budget&, const Value& input, const Arguments& arguments) {
  arguments.bind("abs", {});
  const double* real = input.as_real();
  if (real ? *real < 0 : is_less(input, Value::integer(0)))
    return apply(Operator::subtract, Value::integer(0), input);
  return input;
}

Value sum(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("sum", {"attribute", "start"});
  Value total = bound[1] ? *bound[1] : Value::integer(0);
  for (const Value& item : iterate(input)) {
    budget.spend_steps(1);
    total = apply(Operator::add, total,
                  bound[0] && !bound[0]->is_none() ? path_of(item, *bound[0]) : item);
  }
  return total;
}

constexpr Filter kFilters[] = {
    {"abs", absolute},       {"count", length},       {"d", default_to},
    {"default", default_to}, {"float", to_real},      {"int", to_integer},
    {"length", length},      {"round", round_number}, {"sum", sum},
};

}  // namespace

const Filter* find_number_filter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const Filter& filter) { return filter.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

}  // namespace attacca::text::chat
