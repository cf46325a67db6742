// values.hpp: the values that options take, and where they are stored. Numbers and switches are
// read strictly: decimal, in range, and nothing else. CLI11 alone reads -1 as 2^64 - 1, 010 as 8
// and nan as a number. A place is a variable, a std::optional, or a std::vector, which takes A,B,C.
#pragma once

#include <fmt/core.h>

#include <charconv>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command_line.hpp"

namespace attacca::tool {

namespace detail {

template <class Place, class T>
void store(Place& place, const T& value) {
  place = static_cast<Place>(value);
}
template <class Place, class T>
void store(std::optional<Place>& place, const T& value) {
  place = static_cast<Place>(value);
}
template <class Place, class T>
void store(std::vector<Place>& place, const T& value) {
  place.push_back(static_cast<Place>(value));
}

template <class>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

/// `what`: "whole number from 1 to 20".
template <class T, class Place>
Value number_in(const char* type, Place& place, T least, T most, const std::string& what) {
  const auto read = [&place, least, most, what](const std::string& text) {
    T value{};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error != std::errc() || end != last || !(value >= least && value <= most))
      throw UsageError(fmt::format("'{}' is not a {}", text, what));
    store(place, value);
  };
  return {type, read, kIsVector<Place>, kIsVector<Place>};
}

}  // namespace detail

/// Any text. A vector takes that of an option which is given again, and with `list_of` also A,B,C.
template <class Place>
Value text(Place& place) {
  return {"TEXT", [&place](const std::string& text) { detail::store(place, text); },
          detail::kIsVector<Place>};
}
inline Value list_of(std::vector<std::string>& places) {
  Value value = text(places);
  value.is_list = true;
  return value;
}

/// The name of a file, a folder or a model; an empty one is no way to leave it out.
Value file_name(std::string& place);
/// best, host, host-serial, cuda or cuda:N, whether there is such a device or not.
Value device_name(std::string& place);

/// A whole number from `least` to `most`.
template <class Place>
Value whole_number(Place& place, std::uint64_t least = 0,
                   std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  return detail::number_in("UINT", place, least, most,
                           fmt::format("whole number from {} to {}", least, most));
}

/// A number from `least` to `most`, or from `least` up.
template <class Place>
Value real_number(Place& place, double least, double most) {
  return detail::number_in("FLOAT", place, least, most,
                           fmt::format("number from {} to {}", least, most));
}
template <class Place>
Value real_number(Place& place, double least) {
  return detail::number_in("FLOAT", place, least, double{std::numeric_limits<float>::max()},
                           fmt::format("number from {} up", least));
}

/// A number above 0, up to `most` if that is given.
template <class Place>
Value positive_number(Place& place, double most = std::numeric_limits<float>::max()) {
  const bool has_most = most < std::numeric_limits<float>::max();
  return detail::number_in("FLOAT", place, double{std::numeric_limits<float>::min()}, most,
                           has_most ? fmt::format("number above 0 and at most {}", most)
                                    : std::string("number above 0"));
}

/// One of some names; `choose` takes its place among them.
Value choice_of(const std::vector<std::string>& names, std::function<void(std::size_t)> choose);
template <class Place>
Value one_of(const std::vector<std::string>& names, Place& place) {
  Value value =
      choice_of(names, [&place, names](std::size_t at) { detail::store(place, names[at]); });
  value.may_repeat = value.is_list = detail::kIsVector<Place>;
  return value;
}

/// on or off, or one of their other spellings.
Value on_or_off(bool& place);
bool is_switch(const std::string& text);
std::string not_a_switch(const std::string& text);

}  // namespace attacca::tool
