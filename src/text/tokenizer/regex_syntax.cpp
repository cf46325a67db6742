// regex_syntax.cpp: translates Oniguruma's pattern language to PCRE2's. In Oniguruma \s, \w and \h
// name other sets, {n,m}+ repeats instead of being possessive, {,n} is a repeat, and \uHHHH is a
// code point. Syntax without a counterpart is refused by name.
#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <vector>

#include "core/in_quotes.hpp"
#include "text/tokenizer/regex.hpp"

namespace attacca::text {
namespace {

constexpr std::string_view kSpaceSet =
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";
constexpr std::string_view kWordSet = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kHexSet = "0-9A-Fa-f";
constexpr std::string_view kPlainEscapes = "nrtfaedDpPAzZbBGk0123456789x";

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_letter(char letter) { return (letter | 32) >= 'a' && (letter | 32) <= 'z'; }

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char letter = pattern_[at_];
      if (letter == '{' && take_repeat()) continue;
      if (letter != '*' && letter != '+' && letter != '?') atom_ = out_.size();
      if (letter == '\\') {
        escape(false);
      } else if (letter == '[') {
        set();
      } else if (letter == '(') {
        open_group();
      } else {
        if (letter == ')' && !groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw BadArgument(
        fmt::format("{}: regular expression {} has {} at byte {}, which attacca does "
                    "not read",
                    where_, in_quotes(pattern_), what, at_));
  }

  std::string_view rest() const { return pattern_.substr(at_); }

  void copy(std::size_t count) {
    out_ += rest().substr(0, count);
    at_ += count;
  }

  /// Translates a repeat in braces. False: the brace is a plain character.
  bool take_repeat() {
    std::size_t end = at_ + 1;
    while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    const bool has_low = end > at_ + 1;
    const bool has_comma = end < pattern_.size() && pattern_[end] == ',';
    const std::size_t high = end + 1;
    if (has_comma) {
      end = high;
      while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    }
    if (end >= pattern_.size() || pattern_[end] != '}') return false;
    if (!has_low && (!has_comma || end == high)) return false;
    const char after = end + 1 < pattern_.size() ? pattern_[end + 1] : '\0';
    if (after == '?' && !has_comma) refuse("{n}?");
    out_ += has_low ? "{" : "{0";
    ++at_;
    copy(end + 1 - at_);
    if (after == '+') {
      out_.insert(atom_, "(?:");
      out_ += ")";
    }
    return true;
  }

  void named_set(std::string_view set, bool is_negated, bool is_in_set) {
    at_ += 2;
    if (is_in_set && is_negated) {
      at_ -= 2;
      refuse("a negated set in a set");
    }
    out_ += is_in_set ? std::string(set) : fmt::format("[{}{}]", is_negated ? "^" : "", set);
  }

  void escape(bool is_in_set) {
    if (at_ + 1 == pattern_.size()) refuse("a lone backslash");
    const char letter = pattern_[at_ + 1];
    switch (letter) {
      case 's':
        return named_set(kSpaceSet, false, is_in_set);
      case 'S':
        // The complement of \s is written as a list of ranges, so that it can be part of a set.
        if (!is_in_set) return named_set(kSpaceSet, true, false);
        at_ += 2;
        out_ +=
            "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"
            "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"
            "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
        return;
      case 'w':
        return named_set(kWordSet, false, is_in_set);
      case 'W':
        return named_set(kWordSet, true, is_in_set);
      case 'h':
        return named_set(kHexSet, false, is_in_set);
      case 'H':
        return named_set(kHexSet, true, is_in_set);
      case 'v':
        at_ += 2;
        out_ += "\\x0b";
        return;
      case 'u': {
        const std::string_view digits = rest().substr(2, 4);
        if (digits.size() < 4 ||
            digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
          refuse("\\u without four hexadecimal digits");
        out_ += fmt::format("\\x{{{}}}", digits);
        at_ += 6;
        return;
      }
      default:
        if (is_letter(letter) && kPlainEscapes.find(letter) == std::string_view::npos)
          refuse(fmt::format("\\{}", letter));
        copy(2);
        // \p{L} and \x{41} are one atom.
        if ((letter == 'p' || letter == 'P' || letter == 'x') && rest().starts_with("{"))
          copy(std::min(rest().find('}'), rest().size() - 1) + 1);
    }
  }

  void set() {
    copy(1);
    if (rest().starts_with("^")) copy(1);
    if (rest().starts_with("]")) refuse("an empty set");
    while (true) {
      if (at_ >= pattern_.size()) refuse("a set without its end");
      const char letter = pattern_[at_];
      if (letter == ']') return copy(1);
      if (letter == '\\') {
        escape(true);
      } else if (rest().starts_with("[:")) {
        const std::size_t end = rest().find(":]");
        if (end == std::string_view::npos) refuse("[: without its :]");
        copy(end + 2);
      } else if (letter == '[') {
        refuse("a set in a set");
      } else if (rest().starts_with("&&")) {
        refuse("&& in a set");
      } else {
        copy(1);
      }
    }
  }

  void open_group() {
    groups_.push_back(out_.size());
    const std::string_view after = rest().substr(1);
    if (after.starts_with("*")) refuse("(*");
    if (!after.starts_with("?")) return copy(1);
    const char kind = after.size() > 1 ? after[1] : '\0';
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>' || kind == '<') return copy(3);
    const std::size_t end = after.find_first_not_of("ix-", 1);
    const char last = end == std::string_view::npos ? '\0' : after[end];
    if (end == 1 || (last != ':' && last != ')')) refuse("(? with an option");
    // An option without a colon opens a group of its own, unless it is at the start.
    if (last == ')' && !out_.empty()) refuse("an option that is not at the start");
    copy(end + 1);
  }

  std::string_view pattern_;
  std::string_view where_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;             // where the atom that a repeat applies to begins in `out_`
  std::vector<std::size_t> groups_;  // where the open groups begin in `out_`
};

}  // namespace

std::string to_pcre(std::string_view pattern, std::string_view where) {
  return Translator(pattern, where).run();
}

}  // namespace attacca::text
