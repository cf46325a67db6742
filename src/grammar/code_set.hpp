// code_set.hpp: sets of Unicode code points, as classes of regular expressions name them.
// Surrogates, which no UTF-8 text has, are in no set.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace attacca::grammar {

class CodeSet {
 public:
  struct Range {
    char32_t first = 0, last = 0;
    bool operator==(const Range&) const = default;
  };

  CodeSet() = default;
  CodeSet(std::initializer_list<Range> ranges) : CodeSet(std::vector<Range>(ranges)) {}
  explicit CodeSet(std::vector<Range> ranges);

  std::span<const Range> ranges() const& { return ranges_; }  // sorted and apart
  void ranges() const&& = delete;                             // they would outlive the set
  bool is_empty() const { return ranges_.empty(); }
  bool has(char32_t code) const;

  CodeSet operator|(const CodeSet& other) const;
  CodeSet operator~() const;

  static const CodeSet& all();

 private:
  void normalize();
  std::vector<Range> ranges_;
};

// What \d, \w and \s mean in ECMA-262, and a dot: no line ends.
CodeSet digits();
CodeSet word_characters();
CodeSet white_space();
CodeSet all_but_line_ends();

/// The code points of a general category such as "L" or "Lu"; nothing if there is no such category.
std::optional<CodeSet> category(std::string_view name);

}  // namespace attacca::grammar
