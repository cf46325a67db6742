// numbers.hpp: decimal numbers with exact bounds, and the automata that write JSON numbers within
// them.
#pragma once

#include <compare>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "grammar/automaton.hpp"

namespace attacca::grammar {

/// How many digits are written at most, so that a model does not write digits for ever. Decimals of
/// 15 digits become different doubles in the same order, so a number within its bounds stays there
/// in every parser.
inline constexpr std::uint32_t kMostDigits = 15, kMostExponentDigits = 2;

/// An exact decimal number. Zero is not negative.
struct Decimal {
  bool is_negative = false;
  std::string whole = "0";    // no leading zeros
  std::string fraction = {};  // no trailing zeros

  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
};

Decimal decimal_of(const nlohmann::ordered_json& number);
std::strong_ordering compare(const Decimal& left, const Decimal& right);

struct Bound {
  Decimal value = {};
  bool is_exclusive = false;
};

struct NumberLimits {
  bool is_integer = false;
  std::optional<Bound> least = {}, most = {};
  std::uint32_t divisor = 1;  // of integers
};

bool is_within(const Decimal& number, const NumberLimits& limits);

/// No exponent if there is a bound; no -0 for integers.
Dfa number_automaton(const NumberLimits& limits, Budget& budget);

}  // namespace attacca::grammar
