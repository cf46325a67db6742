// code_set.cpp: unions, complements and the named sets of code points.
#include "grammar/code_set.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace attacca::grammar {
namespace {
constexpr char32_t kBeforeSurrogates = 0xD7FF, kAfterSurrogates = 0xE000, kLast = 0x10FFFF;
}

CodeSet::CodeSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) { normalize(); }

/// Sorts the ranges, joins those that touch and cuts the surrogates out.
void CodeSet::normalize() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& left, const Range& right) { return left.first < right.first; });
  std::vector<Range> joined;
  const auto add = [&](char32_t first, char32_t last) {
    if (first > last) return;
    if (!joined.empty() && first <= joined.back().last + 1)
      joined.back().last = std::max(joined.back().last, last);
    else
      joined.push_back({first, last});
  };
  for (const Range& range : ranges_) {
    add(range.first, std::min(range.last, kBeforeSurrogates));
    add(std::max(range.first, kAfterSurrogates), std::min(range.last, kLast));
  }
  ranges_ = std::move(joined);
}

bool CodeSet::has(char32_t code) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const Range& range) { return range.first <= code && code <= range.last; });
}

CodeSet CodeSet::operator|(const CodeSet& other) const {
  CodeSet result = *this;
  result.ranges_.insert(result.ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  result.normalize();
  return result;
}

CodeSet CodeSet::operator~() const {
  CodeSet result;
  char32_t first = 0;
  for (const Range& range : ranges_) {
    if (range.first > first) result.ranges_.push_back({first, range.first - 1});
    first = range.last + 1;
  }
  if (first <= kLast) result.ranges_.push_back({first, kLast});
  result.normalize();
  return result;
}

const CodeSet& CodeSet::all() {
  static const CodeSet every = ~CodeSet();
  return every;
}

CodeSet digits() { return {{'0', '9'}}; }

CodeSet word_characters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }

CodeSet white_space() {
  return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

CodeSet all_but_line_ends() { return ~CodeSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }

namespace {

/// The general categories by their names of one and two letters.
std::map<std::string, CodeSet> all_categories() {
  std::map<std::string, std::vector<CodeSet::Range>> ranges;
  for (char32_t code = 0; code <= kLast; ++code) {
    const std::string name = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
    for (const std::string& key : {name, name.substr(0, 1)}) {
      std::vector<CodeSet::Range>& list = ranges[key];
      if (!list.empty() && list.back().last + 1 == code)
        list.back().last = code;
      else
        list.push_back({code, code});
    }
  }
  ranges.erase("Cs");  // surrogates
  std::map<std::string, CodeSet> sets;
  for (auto& [name, list] : ranges) sets.emplace(name, CodeSet(std::move(list)));
  return sets;
}

}  // namespace

std::optional<CodeSet> category(std::string_view name) {
  static const std::map<std::string, CodeSet> known = all_categories();
  const auto found = known.find(std::string(name));
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace attacca::grammar
