// Tests of hostile chat templates: whatever a template says, the result is text or a message with
// the place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "text/chat/chat_template.hpp"

namespace attacca::text {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::string& source,
                     const ordered_json& messages = ordered_json::array()) {
  try {
    return "rendered: " + ChatTemplate(source, "mine").render(messages).text.substr(0, 100);
  } catch (const BadArgument& error) {
    return error.what();
  }
}

TEST(ChatErrors, a_syntax_error_names_the_line_the_column_and_what_was_found) {
  EXPECT_EQ(error_of("a\n{% if x %}\n  {{ 1 + }}{% endif %}"),
            "mine, line 3, column 10: an expression is missing here; found '}}'");
  EXPECT_EQ(error_of("{% for x of y %}"),
            "mine, line 1, column 10: 'in' is missing here; found 'of'");
  EXPECT_THAT(error_of("\n{% if x %}"), AllOf(HasSubstr("line 2"), HasSubstr("'endif' is missing"),
                                              HasSubstr("the end of the template")));
  EXPECT_EQ(error_of("ü {{ 'a }}"), "mine, line 1, column 6: a string without its closing quote");
  EXPECT_EQ(error_of("\n {{ x"), "mine, line 2, column 2: '{{' without its '}}'");
  EXPECT_EQ(error_of("{# x"), "mine, line 1, column 1: a comment without its '#}'");
  EXPECT_EQ(error_of("{{ a $ b }}"), "mine, line 1, column 6: unexpected character '$'");
}

TEST(ChatErrors, what_is_not_supported_is_named_with_its_line) {
  EXPECT_EQ(error_of("\n{{ x | wordwrap }}"),
            "mine, line 2, column 8: the filter 'wordwrap' is not supported");
  EXPECT_EQ(error_of("{{ x is frob }}"),
            "mine, line 1, column 9: the test 'frob' is not supported");
  EXPECT_EQ(error_of("\n\n{% include 'x' %}"),
            "mine, line 3, column 4: the block 'include' is not supported");
  EXPECT_THAT(error_of("{% for x in y recursive %}{% endfor %}"), HasSubstr("recursive"));
  EXPECT_THAT(error_of("{{ f(**x) }}"), HasSubstr("mapping are not supported"));
  EXPECT_THAT(error_of("{{ [1].append(2) }}"), HasSubstr("a list cannot be changed"));
}

TEST(ChatErrors, a_failure_names_the_place_and_the_variable) {
  EXPECT_EQ(error_of("a\n{{ tool.name }}"), "mine, line 2, column 8: 'tool' is not defined");
  EXPECT_EQ(
      error_of("{{ messages[0].content + 'x' }}", ordered_json::parse(R"([{"role": "user"}])")),
      "mine, line 1, column 24: a mapping has no 'content'");
  EXPECT_EQ(error_of("{{ lipsum() }}"),
            "mine, line 1, column 10: 'lipsum' is not defined, so it cannot be called");
  EXPECT_EQ(error_of("{{ 1 + 'a' }}"),
            "mine, line 1, column 6: '+' between an integer and a string");
}

TEST(ChatErrors, a_template_that_refuses_is_quoted) {
  EXPECT_EQ(
      error_of("{{ raise_exception('Roles must alternate!') }}"),
      "mine, line 1, column 19: the template refuses this conversation: Roles must alternate!");
}

TEST(ChatErrors, messages_that_are_no_array_are_refused) {
  EXPECT_THAT(error_of("x", "hello"), HasSubstr("string, not an array"));
  EXPECT_THAT(error_of("x", ordered_json::object()), HasSubstr("object, not an array"));
}

TEST(ChatLimits, a_loop_that_never_ends_in_practice_is_stopped) {
  EXPECT_THAT(
      error_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
      HasSubstr("too many steps"));
  EXPECT_THAT(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("too deeply"));
  EXPECT_THAT(error_of("{{ range(10**9) }}"), HasSubstr("100000"));
}

TEST(ChatLimits, memory_is_bounded) {
  EXPECT_THAT(error_of("{{ 'a' * 10**12 }}"), HasSubstr("repeated 1000000000000 times"));
  EXPECT_THAT(error_of("{{ [1] * 10**12 }}"), HasSubstr("more than 262144 items"));
  EXPECT_THAT(error_of("{{ 'a' | indent(10**15) }}"), HasSubstr("repeated"));
  EXPECT_THAT(error_of("{{ [[1]] | tojson(indent=10**9) }}"), HasSubstr("repeated"));
  EXPECT_THAT(error_of("{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}"
                       "{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
              HasSubstr("16 MiB"));
  EXPECT_THAT(error_of("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}"
                       "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}"),
              HasSubstr("a value of more than"));
  EXPECT_THAT(error_of("{% set ns = namespace(x=[1]) %}{% for i in range(999) %}"
                       "{% set ns.x = [ns.x] %}{% endfor %}"),
              HasSubstr("deeper than 100"));
}

TEST(ChatLimits, nesting_is_bounded) {
  const auto repeat = [](const std::string& text, int times) {
    std::string all;
    for (int time = 0; time < times; ++time) all += text;
    return all;
  };
  const std::pair<const char*, const char*> pairs[] = {
      {"(", ")"},     {"[", "]"},  {"-", ""},   {"not ", ""},
      {"{'a':", "}"}, {"x[", "]"}, {"f(", ")"}, {"1 if 1 else ", ""}};
  for (const auto& [open, close] : pairs)
    EXPECT_THAT(error_of("{{ " + repeat(open, 5000) + "1" + repeat(close, 5000) + " }}"),
                HasSubstr("too deeply"))
        << open;
  for (const char* chain : {" + 1", " ~ 1", " | abs", ".x", "[0]", "()", " and 1", " is odd"})
    EXPECT_THAT(error_of("{{ 1" + repeat(chain, 5000) + " }}"), testing::Not(HasSubstr("rendered")))
        << chain;
  EXPECT_THAT(error_of(repeat("{% if 1 %}", 5000)), HasSubstr("too deeply"));
  EXPECT_EQ(error_of("{{ 1" + repeat(" + 1", 100) + " }}"), "rendered: 101");

  ordered_json deep = 1;
  for (int level = 0; level < 1000; ++level) {
    ordered_json outer = ordered_json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  EXPECT_THAT(error_of("x", ordered_json::array({deep})), HasSubstr("deeper than 100"));
  EXPECT_THAT(error_of(std::string(ChatTemplate::kMaxSource + 1, 'x')), HasSubstr("1048577 bytes"));
}

TEST(ChatLimits, a_namespace_or_loop_that_holds_itself_is_freed) {
  EXPECT_EQ(error_of("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.all = [ns] %}"
                     "{{ ns.me.me.all[0].me is defined }}"),
            "rendered: True");
  EXPECT_THAT(error_of("{% set ns = namespace(x=[1]) %}{% for i in range(999) %}{% for y in ns.x %}"
                       "{% set ns.x = [loop] %}{% endfor %}{% endfor %}"),
              HasSubstr("deeper than 100"));
}

TEST(ChatLimits, bytes_that_are_no_utf8_pass_through) {
  EXPECT_EQ(error_of("{{ '\xff\xc3' | upper | trim | reverse }}\xfe"), "rendered: \xc3\xff\xfe");
  ordered_json messages = ordered_json::parse(R"([{"role": "user"}])");
  messages[0]["content"] = "a\xf0\x9f z";
  EXPECT_EQ(ChatTemplate("{{ messages[0].content[::-1] | tojson }}").render(messages).text,
            "\"z \x9f\xf0"
            "a\"");
}

TEST(ChatFuzz, mutated_templates_are_rendered_or_refused) {
  std::vector<std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator("tests/text/fixtures/chat")) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    sources.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::sort(sources.begin(), sources.end());
  ASSERT_FALSE(sources.empty());
  const std::string pieces[] = {"{%",   "%}",    "{{",       "}}",          "{#",       "-",
                                "|",    "(",     ")",        "[",           "]",        "'",
                                "if ",  "endif", "for ",     " in ",        "loop",     "set",
                                "else", "~",     ".",        "messages",    "\xff",     "| tojson",
                                "is ",  ":",     "range(9)", "namespace()", "| length", "{'a': 1}"};
  const ordered_json messages = ordered_json::parse(
      R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null}])");
  std::mt19937 random(20240726);
  const auto below = [&](std::size_t count) { return random() % count; };
  int rendered = 0;
  for (int round = 0; round < 400; ++round) {
    std::string source = sources[below(sources.size())];
    for (std::size_t change = 0; change <= below(4); ++change) {
      const std::size_t at = below(source.size() + 1);
      switch (below(3)) {
        case 0:
          source.erase(at, below(20));
          break;
        case 1:
          source.insert(at, pieces[below(std::size(pieces))]);
          break;
        default:
          source.insert(at, source.substr(below(source.size() + 1), below(40)));
      }
    }
    try {
      const Rendered result = ChatTemplate(source).render(messages);
      ++rendered;
      for (const TextRange& range : result.literal) ASSERT_LE(range.end, result.text.size());
    } catch (const BadArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("line "));
    }
  }
  EXPECT_GT(rendered, 10);
}

}  // namespace
}  // namespace attacca::text
