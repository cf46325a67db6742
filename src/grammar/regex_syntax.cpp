// regex_syntax.cpp: parses regular expressions by recursive descent and names what it refuses.
#include "grammar/regex_syntax.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <optional>
#include <string>

#include "core/in_quotes.hpp"
#include "grammar/limits.hpp"
#include "text/utf8.hpp"

namespace attacca::grammar {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  RegexNode run() {
    if (pattern_.size() > kMostRegexBytes)
      throw TooLarge(fmt::format("a regular expression of {} bytes; at most {}", pattern_.size(),
                                 kMostRegexBytes));
    if (!text::is_utf8(pattern_)) throw BadArgument("a regular expression that is not UTF-8");
    RegexNode node = choice(0);
    if (!is_done()) refuse("a ')' without its '('");
    return node;
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view remedy = {}) const {
    throw BadArgument(fmt::format("regular expression {}: byte {}: {}{}{}", in_quotes(pattern_),
                                  at_, what, remedy.empty() ? "" : "; ", remedy));
  }

  bool is_done() const { return at_ == pattern_.size(); }
  bool sees(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_code() {
    if (is_done()) refuse("it ends too soon");
    std::size_t length = 0;
    const char32_t code = text::first_code(pattern_.substr(at_), &length);
    at_ += length;
    return code;
  }

  RegexNode choice(int depth) {
    if (depth > kMostRegexNesting)
      throw TooLarge(fmt::format("groups nested deeper than {}", kMostRegexNesting));
    std::vector<RegexNode> parts;
    do parts.push_back(sequence(depth));
    while (take("|"));
    if (parts.size() == 1) return std::move(parts.front());
    return {.kind = RegexNode::Kind::choice, .parts = std::move(parts)};
  }

  RegexNode sequence(int depth) {
    RegexNode node{.kind = RegexNode::Kind::sequence};
    while (!is_done() && !sees("|") && !sees(")")) node.parts.push_back(repeated(depth));
    return node;
  }

  RegexNode repeated(int depth) {
    RegexNode node = single(depth);
    std::optional<RegexNode> outer = quantifier();
    if (!outer) return node;
    if (node.kind == RegexNode::Kind::begin || node.kind == RegexNode::Kind::end)
      refuse("a quantifier after an anchor");
    take("?");  // lazy or not, the same texts match
    if (sees("+")) refuse("a possessive quantifier is not supported");
    if (sees("*") || sees("?") || sees("{")) refuse("two quantifiers in a row", "use a group");
    outer->parts.push_back(std::move(node));
    return *std::move(outer);
  }

  std::optional<RegexNode> quantifier() {
    RegexNode node{.kind = RegexNode::Kind::repeat};
    node.most = kUnbounded;
    if (take("*")) return node;
    if (take("+")) {
      node.least = 1;
      return node;
    }
    if (take("?")) {
      node.most = 1;
      return node;
    }
    if (!take("{")) return std::nullopt;
    node.least = node.most = count();
    if (take(",")) node.most = sees("}") ? kUnbounded : count();
    if (!take("}")) refuse("a '{' that is no quantifier", "write \\{ for the character");
    if (node.most < node.least) refuse("a quantifier whose bounds are in the wrong order");
    return node;
  }

  std::uint32_t count() {
    std::uint32_t value = 0;
    if (is_done() || pattern_[at_] < '0' || pattern_[at_] > '9')
      refuse("a '{' that is no quantifier", "write \\{ for the character");
    for (; !is_done() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(pattern_[at_] - '0');
      if (value > kMostRepeats)
        throw TooLarge(fmt::format("regular expression {}: byte {}: more than {} repeats",
                                   in_quotes(pattern_), at_, kMostRepeats));
    }
    return value;
  }

  RegexNode single(int depth) {
    if (take("(")) return group(depth);
    if (take("[")) return characters(bracket());
    if (take(".")) return characters(all_but_line_ends());
    if (take("^")) return {.kind = RegexNode::Kind::begin};
    if (take("$")) return {.kind = RegexNode::Kind::end};
    if (sees("*") || sees("+") || sees("?")) refuse("a quantifier after nothing");
    if (sees("{")) refuse("a '{' that is no quantifier", "write \\{ for the character");
    if (take("\\")) return characters(escape(false));
    const char32_t code = take_code();
    return characters({{code, code}});
  }

  static RegexNode characters(CodeSet set) {
    return {.kind = RegexNode::Kind::characters, .set = std::move(set)};
  }

  RegexNode group(int depth) {
    if (take("?")) {
      if (sees("=") || sees("!")) refuse("lookahead is not supported");
      if (sees("<=") || sees("<!")) refuse("lookbehind is not supported");
      if (sees(">")) refuse("an atomic group is not supported");
      if (take("<") || take("P<")) {
        const std::size_t end = pattern_.find('>', at_);
        if (end == pattern_.npos || end == at_) refuse("a group's name without its '>'");
        at_ = end + 1;
      } else if (!take(":")) {
        refuse("flags and other groups that begin with '(?' are not supported", "use (?:…)");
      }
    }
    RegexNode node = choice(depth + 1);
    if (!take(")")) refuse("a '(' without its ')'");
    return node;
  }

  CodeSet bracket() {
    const bool is_negated = take("^");
    std::vector<CodeSet::Range> ranges;
    while (!take("]")) {
      if (is_done()) refuse("a '[' without its ']'");
      if (sees("[:") || sees("[.") || sees("[=")) refuse("POSIX classes are not supported");
      const CodeSet low = class_item();
      if (sees("-") && !sees("-]")) {
        take("-");
        if (is_done()) refuse("a '[' without its ']'");
        const CodeSet high = class_item();
        if (!is_single(low) || !is_single(high)) refuse("a range between classes");
        const char32_t first = low.ranges()[0].first, last = high.ranges()[0].first;
        if (last < first) refuse("a range in the wrong order");
        ranges.push_back({first, last});
      } else {
        ranges.insert(ranges.end(), low.ranges().begin(), low.ranges().end());
      }
    }
    const CodeSet set(std::move(ranges));
    return is_negated ? ~set : set;
  }

  static bool is_single(const CodeSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }

  CodeSet class_item() {
    if (take("\\")) return escape(true);
    const char32_t code = take_code();
    return {{code, code}};
  }

  CodeSet escape(bool is_in_class) {
    if (is_done()) refuse("a '\\' at the end");
    const char32_t code = take_code();
    const auto one = [](char32_t only) { return CodeSet{{only, only}}; };
    switch (code) {
      case 'd':
        return digits();
      case 'D':
        return ~digits();
      case 'w':
        return word_characters();
      case 'W':
        return ~word_characters();
      case 's':
        return white_space();
      case 'S':
        return ~white_space();
      case 'p':
      case 'P':
        return property(code == 'P');
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        if (!is_done() && pattern_[at_] >= '0' && pattern_[at_] <= '9')
          refuse("an octal escape is not supported", "use \\xNN");
        return one(0);
      case 'x':
        return one(hexadecimal(2));
      case 'u':
        return one(unicode());
      case 'c': {
        const char32_t letter = take_code();
        if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
          refuse("\\c is followed by a letter");
        return one(letter & 31);
      }
      case 'b':
        if (is_in_class) return one('\b');
        refuse("a word boundary (\\b) is not supported");
      case 'B':
        refuse("a word boundary (\\B) is not supported");
      case 'k':
        refuse("a backreference (\\k) is not supported");
      default:
        break;
    }
    if (code >= '1' && code <= '9') refuse("a backreference is not supported");
    if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z'))
      refuse(fmt::format("the escape \\{} is not supported", static_cast<char>(code)));
    return one(code);
  }

  char32_t hexadecimal(int digit_count) {
    char32_t value = 0;
    for (int left = digit_count; left > 0; --left) {
      const char32_t digit = take_code();
      if (digit >= '0' && digit <= '9')
        value = value * 16 + (digit - '0');
      else if ((digit | 32) >= 'a' && (digit | 32) <= 'f')
        value = value * 16 + ((digit | 32) - 'a' + 10);
      else
        refuse(fmt::format("{} hexadecimal digits are expected", digit_count));
    }
    return value;
  }

  char32_t unicode() {
    char32_t code = 0;
    if (take("{")) {
      int digit_count = 0;
      while (!take("}")) {
        if (++digit_count > 6) refuse("a code point past U+10FFFF");
        code = code * 16 + hexadecimal(1);
      }
      if (digit_count == 0) refuse("\\u{} without a number");
    } else {
      code = hexadecimal(4);
      if (code >= 0xD800 && code <= 0xDBFF && take("\\u")) {
        const char32_t low = hexadecimal(4);
        if (low < 0xDC00 || low > 0xDFFF) refuse("half a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (code > 0x10FFFF) refuse("a code point past U+10FFFF");
    if (code >= 0xD800 && code <= 0xDFFF) refuse("half a surrogate pair");
    return code;
  }

  CodeSet property(bool is_negated) {
    const std::size_t end = pattern_.find('}', at_);
    if (!take("{") || end == pattern_.npos) refuse("\\p is followed by {…}");
    std::string_view name = pattern_.substr(at_, end - at_);
    for (const std::string_view prefix : {"General_Category=", "gc="})
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    const std::optional<CodeSet> set = category(name);
    if (!set)
      refuse(fmt::format("the property {} is not supported", in_quotes(name)),
             "use a general category such as \\p{L} or \\p{Lu}");
    at_ = end + 1;
    return is_negated ? ~*set : *set;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) { return Parser(pattern).run(); }

}  // namespace attacca::grammar
