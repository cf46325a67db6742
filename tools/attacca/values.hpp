// values.hpp: numbers and switches on the command line, read strictly: decimal, in range, and
// nothing else. CLI11 alone reads -1 as 2^64 - 1, 010 as 8 and nan as a number.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace attacca::tool {

namespace detail {
template <class T>
CLI::Validator number_in(T least, T most, const std::string& range) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        T value{};
        const char* const last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data(), last, value);
        if (error != std::errc() || end != last || !(value >= least && value <= most))
          return fmt::format("'{}' is no {}", text, range);
        text = fmt::format("{}", value);
        return {};
      },
      "");
}
}  // namespace detail

/// For CLI::Option::transform: a whole number from `least` to `most`.
inline CLI::Validator whole_number(std::uint64_t least = 0,
                                   std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  return detail::number_in(least, most, fmt::format("whole number from {} to {}", least, most));
}

/// A number from `least` to `most`, or from `least` up.
inline CLI::Validator real_number(double least, double most) {
  return detail::number_in(least, most, fmt::format("number from {} to {}", least, most));
}
inline CLI::Validator real_number(double least) {
  return detail::number_in(least, double{std::numeric_limits<float>::max()},
                           fmt::format("number from {} up", least));
}
/// A number above 0, up to `most` if that is given.
inline CLI::Validator positive_number(double most = std::numeric_limits<float>::max()) {
  const bool has_most = most < std::numeric_limits<float>::max();
  return detail::number_in(double{std::numeric_limits<float>::min()}, most,
                           has_most ? fmt::format("number above 0 and at most {}", most)
                                    : std::string("number above 0"));
}

/// For CLI::Option::check: on or off, or one of their other spellings.
inline CLI::Validator on_or_off() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        for (const char* known : {"on", "off", "true", "false", "yes", "no", "1", "0"})
          if (text == known) return {};
        return fmt::format("'{}' is neither on nor off", text);
      },
      "");
}

}  // namespace attacca::tool
