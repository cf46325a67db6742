// string_formats.cpp: the regular expressions of dates, times and addresses. They describe subsets
// that every validator accepts: no leap seconds, years from 1000 on, capital T and Z.
#include "grammar/string_formats.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace attacca::grammar {
namespace {

std::map<std::string_view, std::string> all_patterns() {
  const std::string long_month = R"((?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01]))";
  const std::string short_month = R"((?:0[469]|11)-(?:0[1-9]|[12]\d|30))";
  const std::string february = R"(02-(?:0[1-9]|1\d|2[0-8]))";
  // Divisible by 4 and not by 100, or divisible by 400.
  const std::string leap_year =
      R"((?:[1-9]\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00))";
  const std::string date = R"((?:[1-9]\d{3}-(?:)" + long_month + "|" + short_month + "|" +
                           february + ")|" + leap_year + "-02-29)";
  const std::string hour_and_minute = R"((?:[01]\d|2[0-3]):[0-5]\d)";
  const std::string time =
      hour_and_minute + R"(:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-])" + hour_and_minute + ")";
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  const std::string byte = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  return {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
      {"email", atom + "(?:\\." + atom + ")*@" + label + "(?:\\." + label + ")+"},
      {"hostname", label + "(?:\\." + label + "){0,3}"},  // so that it stays below 254 characters
      {"ipv4", byte + "(?:\\." + byte + "){3}"},
  };
}

constexpr std::array<std::string_view, 19> kStandard{
    "date",     "time",          "date-time",    "duration",     "email", "idn-email",
    "hostname", "idn-hostname",  "ipv4",         "ipv6",         "uri",   "uri-reference",
    "iri",      "iri-reference", "uri-template", "json-pointer", "regex", "relative-json-pointer",
    "uuid"};

}  // namespace

const std::string* format_pattern(std::string_view name) {
  static const std::map<std::string_view, std::string> known = all_patterns();
  const auto found = known.find(name);
  return found == known.end() ? nullptr : &found->second;
}

bool is_standard_format(std::string_view name) {
  return std::find(kStandard.begin(), kStandard.end(), name) != kStandard.end();
}

}  // namespace attacca::grammar
