// string_formats.cpp: the regular expressions of dates, times and addresses. They describe subsets
// that every validator accepts: no leap seconds, years from 1000 on, capital T and Z.
#include "grammar/string_formats.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace attacca::grammar {
namespace {

// 29 February only in leap years: divisible by 4 and not by 100, or divisible by 400.
#define ATTACCA_DATE                                                \
  "(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"  \
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" \
  "(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-02-29)"
#define ATTACCA_TIME                                        \
  "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?" \
  "(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d))"
#define ATTACCA_BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define ATTACCA_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define ATTACCA_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kPatterns{{
    {"date", ATTACCA_DATE},
    {"time", ATTACCA_TIME},
    {"date-time", ATTACCA_DATE "T" ATTACCA_TIME},
    {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
    {"email", ATTACCA_ATOM "(?:\\." ATTACCA_ATOM ")*@" ATTACCA_LABEL "(?:\\." ATTACCA_LABEL ")+"},
    {"ipv4", ATTACCA_BYTE "(?:\\." ATTACCA_BYTE "){3}"},
    {"hostname", ATTACCA_LABEL "(?:\\." ATTACCA_LABEL "){0,3}"},
}};

#undef ATTACCA_DATE
#undef ATTACCA_TIME
#undef ATTACCA_BYTE
#undef ATTACCA_LABEL
#undef ATTACCA_ATOM

constexpr std::array<std::string_view, 19> kStandard{"date",
                                                     "time",
                                                     "date-time",
                                                     "duration",
                                                     "email",
                                                     "idn-email",
                                                     "hostname",
                                                     "idn-hostname",
                                                     "ipv4",
                                                     "ipv6",
                                                     "uri",
                                                     "iri",
                                                     "iri-reference",
                                                     "uri-reference",
                                                     "uri-template",
                                                     "json-pointer",
                                                     "relative-json-pointer",
                                                     "regex",
                                                     "uuid"};

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view name) {
  for (const auto& [known, pattern] : kPatterns)
    if (known == name) return pattern;
  return std::nullopt;
}

bool is_standard_format(std::string_view name) {
  return std::find(kStandard.begin(), kStandard.end(), name) != kStandard.end();
}

}  // namespace attacca::grammar
