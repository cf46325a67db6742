// values.cpp: reads names out of a list, and switches in all their spellings.
#include "values.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace attacca::tool {

namespace {
constexpr std::array<std::string_view, 4> kOn = {"on", "true", "yes", "1"};
constexpr std::array<std::string_view, 4> kOff = {"off", "false", "no", "0"};

bool is_in(const std::array<std::string_view, 4>& words, const std::string& text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}
}  // namespace

Value choice_of(const std::vector<std::string>& names, std::function<void(std::size_t)> choose) {
  const auto read = [names, choose](const std::string& text) {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end())
      throw UsageError(fmt::format("'{}' is none of {}", text, fmt::join(names, ", ")));
    choose(static_cast<std::size_t>(found - names.begin()));
  };
  return {fmt::format("{}", fmt::join(names, "|")), read};
}

Value file_name(std::string& place) {
  return {"TEXT", [&place](const std::string& text) {
            if (text.empty()) throw UsageError("it is empty; give it a name, or leave it out");
            place = text;
          }};
}

Value device_name(std::string& place) {
  return {
      "TEXT", [&place](const std::string& text) {
        constexpr std::array<std::string_view, 4> kNames = {"best", "host", "host-serial", "cuda"};
        const std::string number = text.starts_with("cuda:") ? text.substr(5) : "";
        const bool is_known =
            is_in(kNames, text) ||
            (!number.empty() && number.find_first_not_of("0123456789") == std::string::npos);
        if (!is_known)
          throw UsageError(
              fmt::format("no device '{}'; use best, host, host-serial, cuda or cuda:N", text));
        place = text;
      }};
}

Value on_or_off(bool& place) {
  return {"on|off", [&place](const std::string& text) {
            if (!is_switch(text)) throw UsageError(not_a_switch(text));
            place = is_in(kOn, text);
          }};
}

bool is_switch(const std::string& text) { return is_in(kOn, text) || is_in(kOff, text); }

std::string not_a_switch(const std::string& text) {
  return fmt::format("'{}' is neither on nor off", text);
}

}  // namespace attacca::tool
