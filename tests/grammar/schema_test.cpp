// Tests of JSON schemas as grammars: whatever the masks allow is valid, and what is valid and
// written in order is allowed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "grammar/cases.hpp"
#include "grammar/validator.hpp"
#include "text/tokenizer/open.hpp"
#include "text/utf8.hpp"

namespace attacca::grammar {
namespace {

using nlohmann::json;
using namespace attacca::test;

std::shared_ptr<StateTable> table_of(const std::string& schema,
                                     std::shared_ptr<const TokenTrie> trie) {
  return std::make_shared<StateTable>(std::make_shared<const Grammar>(Grammar::from_schema(schema)),
                                      std::move(trie));
}

/// Parses a text and counts a key that an object has twice as a failure.
json parsed_without_repeats(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  return json::parse(text, [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      EXPECT_TRUE(keys.back().insert(value.get<std::string>()).second) << text;
    }
    return true;
  });
}

/// Checks random answers to every schema. If ATTACCA_GRAMMAR_TEXTS names a file, it gets a line of
/// JSON for each; tests/oracle/grammar_jsonschema.py reads it.
void check_random_texts(const std::shared_ptr<const TokenTrie>& trie, int per_schema,
                        unsigned seed) {
  const char* path = std::getenv("ATTACCA_GRAMMAR_TEXTS");
  std::ofstream file;
  if (path) file.open(path, std::ios::app);
  const std::vector<Case> cases = schema_cases();
  ASSERT_GE(cases.size(), 200u);
  int ended = 0, all = 0;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const auto table = table_of(one.schema.dump(), trie);
    const Validator validator(one.schema);
    std::mt19937 random(seed);
    for (int count = 0; count < per_schema; ++count) {
      const auto text = random_text(table, random, 60);
      ++all;
      if (!text) continue;
      ++ended;
      EXPECT_TRUE(text::is_utf8(*text)) << *text;
      try {
        EXPECT_TRUE(validator.accepts(parsed_without_repeats(*text))) << *text;
      } catch (const json::exception& error) {
        ADD_FAILURE() << *text << ": " << error.what();
      }
      if (path)
        file << json{{"name", one.name}, {"schema", one.schema}, {"text", *text}}.dump() << "\n";
    }
  }
  EXPECT_GT(ended, all * 9 / 10) << "too few texts ended to mean much";
}

TEST(Schema, random_texts_of_a_small_vocabulary_are_valid) {
  check_random_texts(small_trie(), 25, 1);
}

TEST(Schema, random_texts_of_single_bytes_are_valid) { check_random_texts(byte_trie(), 6, 2); }

TEST(Schema, random_texts_of_a_tokenizer_are_valid) { check_random_texts(tokenizer_trie(), 3, 3); }

TEST(Schema, random_texts_of_a_published_tokenizer_are_valid) {
  const std::filesystem::path path = "../shared/fixtures/tokenizers/qwen2.5";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto trie = std::make_shared<const TokenTrie>(text::open_tokenizer(path));
  std::mt19937 random(4);
  for (const Case& one : schema_cases()) {
    if (random() % 32 != 0) continue;
    SCOPED_TRACE(one.name);
    const auto table = table_of(one.schema.dump(), trie);
    for (int count = 0; count < 2; ++count) {
      const auto text = random_text(table, random, 10);
      if (text) {
        EXPECT_TRUE(Validator(one.schema).accepts(parsed_without_repeats(*text))) << *text;
      }
    }
  }
}

TEST(Schema, valid_values_are_accepted_and_others_refused_byte_by_byte) {
  const auto trie = byte_trie();
  std::size_t checked = 0;
  for (const Case& one : schema_cases()) {
    SCOPED_TRACE(one.name);
    const auto table = table_of(one.schema.dump(), trie);
    for (const std::string& text : one.valid) EXPECT_TRUE(accepts(table, text)) << text;
    for (const std::string& text : one.invalid) EXPECT_FALSE(accepts(table, text)) << text;
    checked += one.valid.size() + one.invalid.size();
  }
  EXPECT_GT(checked, 1000u);
}

TEST(Schema, the_validator_of_the_tests_agrees_with_the_fixtures) {
  for (const Case& one : schema_cases()) {
    SCOPED_TRACE(one.name);
    const Validator validator(one.schema);
    for (const std::string& text : one.valid)
      EXPECT_TRUE(validator.accepts(json::parse(text))) << text;
    for (const std::string& text : one.invalid)
      EXPECT_FALSE(validator.accepts(json::parse(text))) << text;
  }
}

TEST(Schema, one_space_may_follow_a_colon_or_a_comma_and_none_is_elsewhere) {
  const auto table = table_of(
      R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}},
          "b": {"const": [1, {"x": 2}]}}})",
      byte_trie());
  EXPECT_TRUE(accepts(table, R"({"a":[1,2],"b":[1,{"x":2}]})"));
  EXPECT_TRUE(accepts(table, R"({"a": [1, 2], "b": [1, {"x": 2}]})"));
  for (const char* text : {R"({"a":  [1]})", R"({ "a":[1]})", R"({"a" :[1]})", R"({"a":[1 ]})",
                           R"({"a":[ 1]})", " {}", "{} ", "{\"a\":\n[1]}"})
    EXPECT_FALSE(accepts(table, text)) << text;
}

TEST(Schema, properties_come_in_the_order_of_the_schema) {
  const auto table = table_of(
      R"({"type": "object", "properties": {"z": {"type": "null"}, "a": {"type": "null"}},
          "additionalProperties": {"type": "null"}})",
      byte_trie());
  EXPECT_TRUE(accepts(table, R"({"z":null,"a":null,"m":null})"));
  EXPECT_TRUE(accepts(table, R"({"a":null,"m":null})"));
  EXPECT_FALSE(accepts(table, R"({"a":null,"z":null})"));
  EXPECT_FALSE(accepts(table, R"({"m":null,"a":null})"));
}

TEST(Schema, properties_alone_mean_no_others) {
  const auto table =
      table_of(R"({"type": "object", "properties": {"a": {"type": "null"}}})", byte_trie());
  EXPECT_FALSE(accepts(table, R"({"b":null})"));
}

TEST(Schema, strings_are_valid_utf8_with_whole_surrogate_pairs) {
  const auto table = table_of(R"({"type": "string"})", byte_trie());
  for (const char* text :
       {R"("\u00e9")", R"("\uD83D\uDE42")", R"("\ud83d\ude42x")", R"("\uFFFF\uE000\ud7ff")",
        R"("\"\\\/\b\f\n\r\t")", "\"\xF4\x8F\xBF\xBF\x7F\"", "\"\xED\x9F\xBF\xEE\x80\x80\""})
    EXPECT_TRUE(accepts(table, text)) << text;
  for (const char* text :
       {R"("\ud83d")", R"("\ude42")", R"("\ud83dx")", R"("\ud83d\u0041")", R"("\ud83d\ud83d")",
        R"("\x41")", R"("\u00g0")", "\"\n\"", "\"\x1F\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"",
        "\"\xF4\x90\x80\x80\"", "\"\xE2\x82\"", "\"\x80\"", "\"\xFF\""})
    EXPECT_FALSE(accepts(table, text)) << text;
}

TEST(Schema, lengths_count_code_points_and_an_escape_is_one) {
  const auto table = table_of(R"({"type": "string", "minLength": 2, "maxLength": 2})", byte_trie());
  for (const char* text : {"\"ab\"", "\"é🙂\"", R"("\n\u0041")", R"("\ud83d\ude42x")"})
    EXPECT_TRUE(accepts(table, text)) << text;
  for (const char* text : {"\"\"", "\"a\"", "\"🙂\"", "\"abc\"", R"("\ud83d\ude42")"})
    EXPECT_FALSE(accepts(table, text)) << text;
}

TEST(Schema, numbers_have_no_needless_zeros_and_few_digits) {
  const auto number = table_of(R"({"type": "number"})", byte_trie());
  for (const char* text : {"0", "-0", "0.0", "-12.50", "1e5", "1E+05", "2.5e-9", "123456789012345"})
    EXPECT_TRUE(accepts(number, text)) << text;
  for (const char* text : {"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "1e100", "NaN",
                           "1234567890123456", "1.123456789012345"})
    EXPECT_FALSE(accepts(number, text)) << text;
  const auto integer = table_of(R"({"type": "integer"})", byte_trie());
  EXPECT_TRUE(accepts(integer, "-123456789012345"));
  for (const char* text : {"-0", "1.0", "1e5", "1234567890123456"})
    EXPECT_FALSE(accepts(integer, text)) << text;
}

TEST(Schema, any_object_is_an_object_of_anything) {
  const auto table = std::make_shared<StateTable>(
      std::make_shared<const Grammar>(Grammar::any_object()), byte_trie());
  EXPECT_TRUE(accepts(table, R"({"a":[1,{"b":null}],"":"x"})"));
  for (const char* text : {"[]", "1", "null", "\"\"", "{\"a\"}", "{\"a\":}", "{,}"})
    EXPECT_FALSE(accepts(table, text)) << text;
}

TEST(Frame, stands_around_the_texts_of_a_grammar) {
  const auto accepts_framed = [](grammar::Grammar grammar, std::string_view text) {
    return accepts(std::make_shared<grammar::StateTable>(
                       std::make_shared<const grammar::Grammar>(std::move(grammar)), byte_trie()),
                   text);
  };
  const grammar::Frame frame{"<a>\n", "\n</a>"};
  const auto schema = [&] { return grammar::Grammar::from_schema(R"({"type": "object"})", frame); };
  EXPECT_TRUE(accepts_framed(schema(), "<a>\n{\"b\":1}\n</a>"));
  EXPECT_FALSE(accepts_framed(schema(), "<a>\n{\"b\":1}"));
  EXPECT_FALSE(accepts_framed(schema(), "{\"b\":1}"));
  EXPECT_TRUE(accepts_framed(grammar::Grammar::from_regex("x*", frame), "<a>\nxx\n</a>"));
  EXPECT_TRUE(accepts_framed(grammar::Grammar::from_regex("x*", {"", "."}), "xx."));
}

}  // namespace
}  // namespace attacca::grammar
