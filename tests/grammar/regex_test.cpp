// Tests of regular expressions as grammars: PCRE2 decides what matches, and what attacca does not
// support is refused by name.
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include "grammar/cases.hpp"
#include "grammar/validator.hpp"
#include "support/refusals.hpp"

namespace attacca::grammar {
namespace {

using namespace attacca::test;

std::shared_ptr<StateTable> table_of(Grammar grammar) {
  static const auto trie = byte_trie();
  return std::make_shared<StateTable>(std::make_shared<const Grammar>(std::move(grammar)), trie);
}

/// Makes expressions and texts of the same few characters.
class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t end) { return random_() % end; }

  template <std::size_t size>
  std::string one_of(const char* const (&choices)[size]) {
    return choices[below(size)];
  }

  std::string pattern(int depth) {
    std::string result;
    for (std::size_t left = 1 + below(3); left > 0; --left) result += repeated(depth);
    if (depth > 0 && below(4) == 0) result += "|" + pattern(depth - 1);
    return result;
  }

  std::string text() {
    std::string result;
    for (std::size_t left = below(7); left > 0; --left)
      result += one_of({"a", "b", "c", "1", "_", "-", "é", "日", "🙂", " "});
    return result;
  }

 private:
  std::string repeated(int depth) {
    if (below(12) == 0) return one_of({"^", "$"});
    return single(depth) +
           one_of({"", "", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?", "+?"});
  }

  std::string single(int depth) {
    if (depth > 0 && below(3) == 0) return (below(2) == 0 ? "(?:" : "(") + pattern(depth - 1) + ")";
    return one_of({"a",      "b",       "c",      "é",   "日",    ".",       "\\d",
                   "\\w",    "\\s",     "\\D",    "\\W", "\\S",   "[ab]",    "[^a]",
                   "[a-c1]", "[^\\w-]", "[é-日]", "\\-", "\\x61", "\\u00e9", "[\\d_]"});
  }

  std::mt19937 random_;
};

TEST(Regex, whole_matches_are_those_of_pcre2) {
  Random random(11);
  int matches = 0, too_large = 0;
  for (int count = 0; count < 400; ++count) {
    const std::string pattern = random.pattern(3);
    SCOPED_TRACE(pattern);
    const Pcre pcre(pattern, true);
    std::shared_ptr<StateTable> table;
    try {
      table = table_of(Grammar::from_regex(pattern));
    } catch (const BadArgument& error) {
      const std::string message = error.what();
      if (message.find("its automaton") != message.npos) {
        ++too_large;
        continue;
      }
      EXPECT_NE(message.find("no text satisfies it"), message.npos) << message;
    }
    for (int tried = 0; tried < 40; ++tried) {
      const std::string text = random.text();
      const bool does_match = pcre.matches(text);
      EXPECT_EQ(table && accepts(table, text), does_match) << text;
      matches += does_match;
    }
  }
  EXPECT_GT(matches, 300);
  EXPECT_LT(too_large, 5);
}

TEST(Regex, patterns_of_schemas_are_searched_for_as_pcre2_does) {
  Random random(12);
  int matches = 0;
  for (int count = 0; count < 300; ++count) {
    const std::string pattern = random.pattern(2);
    SCOPED_TRACE(pattern);
    const Pcre pcre(pattern, false);
    std::shared_ptr<StateTable> table;
    try {
      const ordered_json schema{{"type", "string"}, {"pattern", pattern}};
      table = table_of(Grammar::from_schema(schema.dump()));
    } catch (const BadArgument& error) {
      EXPECT_NE(std::string(error.what()).find("no text satisfies it"), std::string::npos)
          << error.what();
    }
    for (int tried = 0; tried < 40; ++tried) {
      const std::string text = random.text();
      const bool does_match = pcre.matches(text);
      EXPECT_EQ(table && accepts(table, "\"" + text + "\""), does_match) << text;
      matches += does_match;
    }
  }
  EXPECT_GT(matches, 500);
}

TEST(Regex, random_texts_match) {
  const auto trie = small_trie();
  std::mt19937 random(13);
  int ended = 0;
  for (const char* pattern :
       {"[a-z]+@[a-z]+\\.(com|org)", "(\\d{1,3}\\.){3}\\d{1,3}", "yes|no|maybe", "\\p{Lu}\\p{Ll}*",
        "[^\\x00-\\x7f]{1,3}", "(a(b|c)*){2,4}", "-?(0|[1-9]\\d*)", "[\\s\\S]{3}", ".{2}\\n?"}) {
    const auto table = std::make_shared<StateTable>(
        std::make_shared<const Grammar>(Grammar::from_regex(pattern)), trie);
    for (int count = 0; count < 20; ++count) {
      const auto text = random_text(table, random, 40);
      if (!text) continue;
      ++ended;
      EXPECT_TRUE(Pcre(pattern, true).matches(*text)) << pattern << ": " << *text;
    }
  }
  EXPECT_GT(ended, 150);
}

TEST(Regex, unsupported_constructs_are_refused_by_name) {
  const std::pair<const char*, const char*> refused[] = {
      {"(a)\\1", "a backreference is not supported"},
      {"(?<n>a)\\k<n>", "a backreference (\\k) is not supported"},
      {"a(?=b)", "lookahead is not supported"},
      {"a(?!b)", "lookahead is not supported"},
      {"(?<=a)b", "lookbehind is not supported"},
      {"(?<!a)b", "lookbehind is not supported"},
      {"(?>a)", "an atomic group is not supported"},
      {"(?i)a", "flags"},
      {"\\ba", "word boundary (\\b)"},
      {"\\Ba", "word boundary (\\B)"},
      {"a*+", "possessive"},
      {"a++", "possessive"},
      {"[[:alpha:]]", "POSIX classes are not supported"},
      {"\\p{Greek}", "the property 'Greek' is not supported"},
      {"\\A", "the escape \\A is not supported"},
      {"\\012", "octal"},
      {"a{,3}", "a '{' that is no quantifier"},
      {"a{3,2}", "wrong order"},
      {"[b-a]", "wrong order"},
      {"[\\d-z]", "a range between classes"},
      {"(a", "a '(' without its ')'"},
      {"a)", "a ')' without its '('"},
      {"[a", "a '[' without its ']'"},
      {"*a", "a quantifier after nothing"},
      {"a**", "two quantifiers in a row"},
      {"^*", "a quantifier after an anchor"},
      {"a\\", "a '\\' at the end"},
      {"\\ud800", "half a surrogate pair"},
      {"\\u{110000}", "past U+10FFFF"},
      {"\xFF", "not UTF-8"},
      {"a^b", "no text satisfies it"},
  };
  for (const auto& [pattern, words] : refused)
    expect_bad([&, text = pattern] { (void)Grammar::from_regex(text); }, words);
}

TEST(Regex, large_expressions_are_refused_in_time) {
  expect_bad([] { (void)Grammar::from_regex("a{1001}"); }, "more than 1000 repeats");
  expect_bad([] { (void)Grammar::from_regex("(a{1000}){1000}"); }, "too many states");
  expect_bad([] { (void)Grammar::from_regex("(a|b)*a(a|b){30}"); }, "too many states");
  expect_bad([] { (void)Grammar::from_regex("(((((){1000}){1000}){1000}){1000}){1000}"); },
             "too much work");
  expect_bad([] { (void)Grammar::from_regex(std::string(9000, 'a')); }, "at most 8192");
  expect_bad([] { (void)Grammar::from_regex(std::string(100, '(') + std::string(100, ')')); },
             "nested deeper than 64");
}

}  // namespace
}  // namespace attacca::grammar
