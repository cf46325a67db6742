// numbers.cpp: compares the digits of a number with those of its bounds, one after the other.
#include "grammar/numbers.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace attacca::grammar {
namespace {

/// The digits so far, compared with as many digits of a bound's magnitude.
using Relation = std::strong_ordering;
constexpr Relation kEqual = Relation::equal, kLess = Relation::less, kGreater = Relation::greater;

enum class Phase : std::uint8_t { start, minus, zero, whole, point, fraction, e, e_sign, exponent };

struct Value {
  Phase phase = Phase::start;
  bool is_negative = false;
  std::uint32_t digit_count = 0;  // of this part
  std::uint32_t whole_count = 0;  // digits before the point, once it is written
  int against_least = 0, against_most = 0;
  std::uint32_t remainder = 0;
  auto operator<=>(const Value&) const = default;
};

int sign_of(Relation relation) { return relation < 0 ? -1 : relation > 0 ? 1 : 0; }

class Numbers {
 public:
  explicit Numbers(const NumberLimits& limits) : limits_(limits) {}

  std::optional<Value> after(const Value& value, char letter) const {
    const bool is_digit = letter >= '0' && letter <= '9';
    Value next = value;
    switch (value.phase) {
      case Phase::start:
        if (letter == '-') {
          next.phase = Phase::minus;
          next.is_negative = true;
          return next;
        }
        [[fallthrough]];
      case Phase::minus:
        if (!is_digit) return std::nullopt;
        next.phase = letter == '0' ? Phase::zero : Phase::whole;
        return with_whole_digit(next, letter);
      case Phase::whole:
        if (is_digit) {
          if (value.digit_count == kMostDigits) return std::nullopt;
          return with_whole_digit(next, letter);
        }
        [[fallthrough]];
      case Phase::zero:
        if (limits_.is_integer) return std::nullopt;
        if (letter == '.') {
          next.phase = Phase::point;
          next.against_least = after_whole(value.against_least, limits_.least, value.digit_count);
          next.against_most = after_whole(value.against_most, limits_.most, value.digit_count);
          next.whole_count = std::exchange(next.digit_count, 0);
          return next;
        }
        return exponent(next, letter);
      case Phase::point:
      case Phase::fraction:
        if (is_digit) {
          if (value.whole_count + value.digit_count == kMostDigits) return std::nullopt;
          next.phase = Phase::fraction;
          next.against_least =
              with_fraction_digit(value.against_least, limits_.least, value, letter);
          next.against_most = with_fraction_digit(value.against_most, limits_.most, value, letter);
          ++next.digit_count;
          return next;
        }
        return value.phase == Phase::fraction ? exponent(next, letter) : std::nullopt;
      case Phase::e:
        if (letter == '+' || letter == '-') {
          next.phase = Phase::e_sign;
          return next;
        }
        [[fallthrough]];
      case Phase::e_sign:
      case Phase::exponent:
        if (!is_digit || value.digit_count == kMostExponentDigits) return std::nullopt;
        next.phase = Phase::exponent;
        ++next.digit_count;
        return next;
    }
    return std::nullopt;
  }

  bool ends(const Value& value) const {
    int least = value.against_least, most = value.against_most;
    switch (value.phase) {
      case Phase::zero:
      case Phase::whole:
        if (limits_.is_integer && value.is_negative && value.phase == Phase::zero) return false;
        least = after_whole(least, limits_.least, value.digit_count);
        most = after_whole(most, limits_.most, value.digit_count);
        if (limits_.least && !limits_.least->value.fraction.empty() && least == 0) least = -1;
        if (limits_.most && !limits_.most->value.fraction.empty() && most == 0) most = -1;
        break;
      case Phase::fraction:
        least = after_fraction(least, limits_.least, value.digit_count);
        most = after_fraction(most, limits_.most, value.digit_count);
        break;
      case Phase::exponent:
        return true;
      default:
        return false;
    }
    if (value.remainder != 0) return false;
    if (limits_.least) {
      const int relation = with_signs(value.is_negative, least, limits_.least->value);
      if (relation < 0 || (relation == 0 && limits_.least->is_exclusive)) return false;
    }
    if (limits_.most) {
      const int relation = with_signs(value.is_negative, most, limits_.most->value);
      if (relation > 0 || (relation == 0 && limits_.most->is_exclusive)) return false;
    }
    return true;
  }

 private:
  std::optional<Value> with_whole_digit(Value next, char letter) const {
    // The bound away from zero, if it has this sign, limits the digits.
    const std::optional<Bound>& far = next.is_negative ? limits_.least : limits_.most;
    if (far && far->value.is_negative == next.is_negative &&
        next.digit_count >= far->value.whole.size())
      return std::nullopt;
    next.against_least = compared(next.against_least, limits_.least, next.digit_count, letter);
    next.against_most = compared(next.against_most, limits_.most, next.digit_count, letter);
    ++next.digit_count;
    next.remainder =
        (next.remainder * 10 + static_cast<std::uint32_t>(letter - '0')) % limits_.divisor;
    return next;
  }

  std::optional<Value> exponent(Value next, char letter) const {
    if (limits_.least || limits_.most || (letter != 'e' && letter != 'E')) return std::nullopt;
    next.phase = Phase::e;
    next.digit_count = next.whole_count = 0;
    return next;
  }

  static int compared(int before, const std::optional<Bound>& bound, std::uint32_t at,
                      char letter) {
    if (!bound || before != 0 || at >= bound->value.whole.size()) return before;
    return sign_of(letter <=> bound->value.whole[at]);
  }

  /// More digits mean a larger whole part, because neither begins with a zero.
  static int after_whole(int relation, const std::optional<Bound>& bound, std::uint32_t digits) {
    if (!bound || digits == bound->value.whole.size()) return relation;
    return digits < bound->value.whole.size() ? -1 : 1;
  }

  static int with_fraction_digit(int before, const std::optional<Bound>& bound, const Value& value,
                                 char letter) {
    if (!bound || before != 0) return before;
    const std::string& fraction = bound->value.fraction;
    return sign_of(letter <=>
                   (value.digit_count < fraction.size() ? fraction[value.digit_count] : '0'));
  }

  /// The bound's further digits are not all zeros, so it is larger.
  static int after_fraction(int relation, const std::optional<Bound>& bound, std::uint32_t digits) {
    if (!bound || relation != 0) return relation;
    return digits < bound->value.fraction.size() ? -1 : 0;
  }

  /// The relation of the signed numbers, given that of their magnitudes.
  static int with_signs(bool is_negative, int relation, const Decimal& bound) {
    if (is_negative == bound.is_negative) return is_negative ? -relation : relation;
    if (!is_negative) return 1;
    return bound.is_zero() && relation == 0 ? 0 : -1;  // -0 is zero
  }

  const NumberLimits& limits_;
};

}  // namespace

Decimal decimal_of(const nlohmann::ordered_json& number) {
  const std::string text = number.dump();
  Decimal result;
  result.is_negative = text.starts_with('-');
  std::string digits;
  long point = 0, exponent = 0;
  bool has_point = false;
  for (std::size_t at = result.is_negative; at < text.size(); ++at) {
    if (text[at] == '.') {
      has_point = true;
    } else if (text[at] == 'e' || text[at] == 'E') {
      exponent = std::strtol(text.c_str() + at + 1, nullptr, 10);
      break;
    } else {
      digits += text[at];
      point += !has_point;
    }
  }
  point += exponent;
  if (point < 0) {
    digits = std::string(static_cast<std::size_t>(-point), '0') + digits;
    point = 0;
  }
  if (const auto whole = static_cast<std::size_t>(point); digits.size() < whole)
    digits.append(whole - digits.size(), '0');
  result.whole = digits.substr(0, static_cast<std::size_t>(point));
  result.fraction = digits.substr(static_cast<std::size_t>(point));
  result.whole.erase(0, std::min(result.whole.find_first_not_of('0'), result.whole.size()));
  if (result.whole.empty()) result.whole.push_back('0');
  result.fraction.erase(result.fraction.find_last_not_of('0') + 1);
  if (result.is_zero()) result.is_negative = false;
  return result;
}

std::strong_ordering compare(const Decimal& left, const Decimal& right) {
  if (left.is_negative != right.is_negative) return left.is_negative ? kLess : kGreater;
  Relation magnitude = left.whole.size() <=> right.whole.size();
  if (magnitude == 0) magnitude = left.whole <=> right.whole;
  if (magnitude == 0) magnitude = left.fraction <=> right.fraction;
  return left.is_negative ? 0 <=> magnitude : magnitude;
}

bool is_within(const Decimal& number, const NumberLimits& limits) {
  if (limits.is_integer && !number.is_integer()) return false;
  if (limits.least) {
    const Relation relation = compare(number, limits.least->value);
    if (relation < 0 || (relation == 0 && limits.least->is_exclusive)) return false;
  }
  if (limits.most) {
    const Relation relation = compare(number, limits.most->value);
    if (relation > 0 || (relation == 0 && limits.most->is_exclusive)) return false;
  }
  if (limits.divisor == 1) return true;
  std::uint32_t remainder = 0;
  for (const char digit : number.whole)
    remainder = (remainder * 10 + static_cast<std::uint32_t>(digit - '0')) % limits.divisor;
  return remainder == 0 && number.is_integer();
}

Dfa number_automaton(const NumberLimits& limits, Budget& budget) {
  const Numbers numbers(limits);
  return explored(
      Value{}, [&](const Value& value, char letter) { return numbers.after(value, letter); },
      [&](const Value& value) { return numbers.ends(value); }, "0123456789-+.eE", budget);
}

}  // namespace attacca::grammar
