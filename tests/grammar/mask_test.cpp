// Tests of masks: they are exact, equal states share one number, keys never repeat, special tokens
// stay out, and any number of threads may share a table.
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <cstdio>
#include <ctime>
#include <set>
#include <thread>

#include "grammar/cases.hpp"
#include "grammar/validator.hpp"
#include "text/tokenizer/open.hpp"

namespace attacca::grammar {
namespace {

using nlohmann::json;
using namespace attacca::test;

std::shared_ptr<StateTable> table_of(Grammar grammar, std::shared_ptr<const TokenTrie> trie,
                                     StateTable::Limits limits = {}) {
  return std::make_shared<StateTable>(std::make_shared<const Grammar>(std::move(grammar)),
                                      std::move(trie), limits);
}

/// All spellings of a value: after each colon and comma, a space or none.
std::vector<std::string> spellings(const ordered_json& value) {
  std::vector<std::string> texts;
  if (!value.is_structured()) return {value.dump()};
  texts.emplace_back(value.is_object() ? "{" : "[");
  const auto append = [&](const std::vector<std::string>& choices) {
    std::vector<std::string> longer;
    for (const std::string& text : texts)
      for (const std::string& choice : choices) longer.push_back(text + choice);
    texts = std::move(longer);
  };
  bool is_first = true;
  for (const auto& [key, element] : value.items()) {
    if (!is_first) append({",", ", "});
    is_first = false;
    if (value.is_object()) append({"\"" + key + "\":", "\"" + key + "\": "});
    append(spellings(element));
  }
  append({value.is_object() ? "}" : "]"});
  return texts;
}

/// Small values of every type.
std::vector<ordered_json> universe() {
  std::vector<ordered_json> few{nullptr, 1, 2, "a"}, all{nullptr, true, false};
  for (int number = -12; number <= 13; ++number) all.emplace_back(number);
  for (const char* text : {"", "a", "b", "aa", "ab", "ba", "bb", "aba"}) all.emplace_back(text);
  all.push_back(ordered_json::array());
  all.push_back(ordered_json::object());
  for (const ordered_json& one : few) {
    all.push_back(ordered_json::array({one}));
    all.push_back(ordered_json{{"a", one}});
    all.push_back(ordered_json{{"b", one}});
    for (const ordered_json& two : few) {
      all.push_back(ordered_json::array({one, two}));
      all.push_back(ordered_json{{"a", one}, {"b", two}});
    }
  }
  return all;
}

/// Compares the mask after every beginning of every text with what brute force finds.
void expect_exact(Grammar grammar, const std::set<std::string>& language) {
  ASSERT_FALSE(language.empty());
  std::set<std::string> beginnings, pieces{"\"", "x", "{}", "[]", "a\"", "  ", "\xC3", "}}"};
  for (const std::string& text : language) {
    for (std::size_t end = 0; end <= text.size(); ++end) {
      beginnings.insert(text.substr(0, end));
      for (std::size_t length = 1; length <= 4 && length <= end; ++length)
        if (pieces.size() < 250) pieces.insert(text.substr(end - length, length));
    }
    if (!text.empty()) pieces.insert(text);
  }
  std::vector<std::string> tokens(pieces.begin(), pieces.end());
  tokens.emplace_back();
  const auto end_token = static_cast<std::int32_t>(tokens.size() - 1);
  const auto table = table_of(std::move(grammar),
                              std::make_shared<const TokenTrie>(tokens, std::vector{end_token}));
  std::size_t checked = 0;
  for (const std::string& beginning : beginnings) {
    if (++checked > 400) break;
    const auto mask = table->mask(table->advance_bytes(table->start(), beginning));
    for (std::int32_t token = 0; token < end_token; ++token) {
      const std::string longer = beginning + tokens[static_cast<std::size_t>(token)];
      ASSERT_EQ(is_allowed(*mask, token), beginnings.contains(longer)) << longer;
    }
    ASSERT_EQ(is_allowed(*mask, end_token), language.contains(beginning)) << beginning;
  }
}

TEST(Mask, of_a_schema_is_what_brute_force_finds) {
  const std::vector<ordered_json> values = universe();
  for (
      const char* schema :
      {R"({"enum": [null, true, "ab", [1, 2], {"a": 1, "b": null}, 12, 1]})",
       R"({"type": "integer", "minimum": -11, "maximum": 12})",
       R"({"type": "integer", "minimum": -12, "maximum": 11, "multipleOf": 3})",
       R"({"type": ["integer", "null", "boolean"], "exclusiveMinimum": -2, "maximum": 10})",
       R"({"type": "string", "pattern": "^[ab]{0,2}$"})",
       R"({"type": "string", "pattern": "^(a|b)+$", "maxLength": 2})",
       R"({"type": "array", "items": {"enum": [null, 1, 2, "a"]}, "maxItems": 2})",
       R"({"type": "array", "items": {"enum": [1, "a"]}, "minItems": 1, "maxItems": 2})",
       R"({"type": "array", "prefixItems": [{"enum": [1, "a"]}, {"type": "null"}], "items": false})",
       R"({"type": "object", "properties": {"a": {"enum": [1, 2, "a"]}, "b": {"enum": [1, null]}},
            "required": ["a"], "additionalProperties": false})",
       R"({"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"enum": ["a"]}},
            "additionalProperties": false})",
       R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}},
            "minProperties": 1, "maxProperties": 1, "additionalProperties": false})",
       R"({"anyOf": [{"type": "array", "items": {"const": 1}, "maxItems": 2},
                      {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2},
                      {"enum": ["ab", "a", 1]}, {"type": "integer", "minimum": 10, "maximum": 12}]})",
       R"({"oneOf": [{"type": "object", "properties": {"a": {"const": 1}, "b": {"type": "null"}},
                       "required": ["a"], "additionalProperties": false},
                      {"type": "object", "properties": {"a": {"const": 2}, "b": {"const": "a"}},
                       "required": ["a"], "additionalProperties": false}]})",
       R"({"$defs": {"x": {"enum": [1, "a", null]}}, "type": "array", "maxItems": 2,
            "items": {"anyOf": [{"$ref": "#/$defs/x"}, {"const": 2}]}})"}) {
    SCOPED_TRACE(schema);
    const Validator validator(json::parse(schema));
    std::set<std::string> language;
    for (const ordered_json& value : values)
      if (validator.accepts(json::parse(value.dump())))
        for (const std::string& text : spellings(value)) language.insert(text);
    expect_exact(Grammar::from_schema(schema), language);
  }
}

TEST(Mask, of_a_regular_expression_is_what_brute_force_finds) {
  std::vector<std::string> texts{""};
  for (std::size_t at = 0; at < texts.size(); ++at)
    if (texts[at].size() < 7)
      for (const char* letter : {"a", "b", "é"}) texts.push_back(texts[at] + letter);
  for (const char* pattern : {"(a|b){1,3}", "a?b?é?", "(ab|a)(b|é)?", "[aé]{2}|b{4}", "(aé?){1,2}",
                              "a{2}b{0,2}|(ba){2}", "ab|^b$|a(b|$)"}) {
    SCOPED_TRACE(pattern);
    const Pcre pcre(pattern, true);
    std::set<std::string> language;
    for (const std::string& text : texts)
      if (pcre.matches(text)) language.insert(text);
    expect_exact(Grammar::from_regex(pattern), language);
  }
}

/// The masks of large states are composed of parts; a walk from byte to byte finds them directly.
TEST(Mask, is_what_single_bytes_lead_to) {
  const auto trie = tokenizer_trie();
  std::mt19937 random(21);
  for (const Case& one : schema_cases()) {
    if (random() % 8 != 0) continue;
    SCOPED_TRACE(one.name);
    const auto table = table_of(Grammar::from_schema(one.schema.dump()), trie);
    Constraint constraint(table);
    for (int count = 0; count < 12 && !constraint.has_ended(); ++count) {
      const auto mask = table->mask(constraint.state());
      for (std::size_t id = 0; id < trie->vocabulary_size(); ++id) {
        const auto token = static_cast<std::int32_t>(id);
        const bool leads_on = trie->is_end(token)
                                  ? constraint.can_end()
                                  : table->advance(constraint.state(), token) != kDead;
        ASSERT_EQ(is_allowed(*mask, token), leads_on) << token;
      }
      const auto allowed = tokens_of(*mask);
      (void)constraint.advance(allowed[random() % allowed.size()]);
    }
  }
}

TEST(Mask, never_has_a_special_token_but_the_end) {
  const text::Tokenizer tokenizer = [] {
    std::ifstream file("tests/text/fixtures/tokenizer_qwen.json");
    return text::Tokenizer::from_json(json::parse(file).dump());
  }();
  const std::int32_t end = *tokenizer.find("<|im_end|>");
  const auto table = table_of(Grammar::from_regex(".*"),
                              std::make_shared<const TokenTrie>(tokenizer, std::vector{end}, 2000));
  const auto mask = table->mask(table->start());
  ASSERT_EQ(mask->size(), 63u);
  int special = 0;
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    if (!tokenizer.is_special(id)) continue;
    ++special;
    EXPECT_EQ(is_allowed(*mask, id), id == end) << tokenizer.piece(id);
  }
  EXPECT_GE(special, 2);
  for (std::int32_t id = tokenizer.size(); id < 2000; ++id) EXPECT_FALSE(is_allowed(*mask, id));
}

TEST(Mask, of_an_ended_text_is_empty) {
  Constraint constraint(table_of(Grammar::from_regex("a?"), byte_trie()));
  ASSERT_TRUE(constraint.advance('a'));
  EXPECT_FALSE(constraint.advance('a'));
  EXPECT_EQ(tokens_of(*constraint.allowed().mask), std::vector<std::int32_t>{256});
  ASSERT_TRUE(constraint.advance(256));
  EXPECT_TRUE(constraint.has_ended());
  EXPECT_TRUE(tokens_of(*constraint.allowed().mask).empty());
  EXPECT_FALSE(constraint.advance(256));
}

TEST(Mask, is_refused_for_tokens_that_are_none) {
  Constraint constraint(table_of(Grammar::from_regex("a?"), byte_trie()));
  EXPECT_FALSE(constraint.advance(-1));
  EXPECT_FALSE(constraint.advance(5000));
  EXPECT_THROW(TokenTrie({"a"}, {7}), BadArgument);
}

TEST(State, is_the_same_number_for_equal_futures) {
  const auto table = table_of(
      Grammar::from_schema(R"({"type": "array", "items": {"type": "string"}})"), byte_trie());
  const auto after = [&](const char* text) { return table->advance_bytes(table->start(), text); };
  EXPECT_EQ(after("[\"a"), after("[\"bcd\\n"));
  EXPECT_EQ(after("[\"a\""), after("[\"\", \"x\""));
  EXPECT_EQ(after("[\"a\""), after("[\"a\",\"b\",\"c\""));
  EXPECT_NE(after("[\"a"), after("[\"a\""));
  EXPECT_EQ(after("[1"), kDead);
  EXPECT_EQ(table->mask(after("[\"a")), table->mask(after("[\"zz")));
}

TEST(State, of_ambiguous_nesting_stays_small) {
  // Two rules may have opened each bracket, so there are 2^depth stacks.
  const auto table = table_of(Grammar::from_schema(
                                  R"({"$defs": {"t": {"anyOf": [
               {"type": "object", "properties": {"x": {"$ref": "#/$defs/t"}}},
               {"type": "object", "properties": {"x": {"$ref": "#/$defs/t"}, "y": {"const": 1}}}]}},
              "$ref": "#/$defs/t"})"),
                              byte_trie());
  std::string text;
  for (int depth = 0; depth < 200; ++depth) text += "{\"x\":";
  text += "{}";
  for (int depth = 0; depth < 200; ++depth) text += depth % 3 == 0 ? ",\"y\":1}" : "}";
  EXPECT_TRUE(accepts(table, text));
  EXPECT_LT(table->state_count(), 5000u);
}

TEST(State, table_that_is_full_says_so) {
  const auto table = table_of(Grammar::any_object(), byte_trie(), {.masks = 4, .states = 200});
  std::string text = "{\"a\":";
  for (int depth = 0; depth < 500; ++depth) text += "[";
  EXPECT_THROW((void)table->advance_bytes(table->start(), text), Error);
  EXPECT_NE(table->advance_bytes(table->start(), "{\"a\":"), kDead);
}

TEST(State, masks_that_were_dropped_are_made_again) {
  const auto table = table_of(Grammar::from_regex("[a-e]{40}"), byte_trie(), {.masks = 3});
  State state = table->start();
  for (int count = 0; count < 39; ++count) {
    EXPECT_EQ(tokens_of(*table->mask(state)).size(), 5u);
    EXPECT_EQ(tokens_of(*table->mask(table->start())).size(), 5u);
    state = table->advance(state, 'c');
  }
}

TEST(State, table_serves_many_threads) {
  const auto table = table_of(Grammar::any_object(), small_trie());
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int count = 0; count < 10; ++count)
        if (const auto text = random_text(table, random, 30)) {
          EXPECT_TRUE(json::accept(*text)) << *text;
        }
    });
  for (std::thread& thread : threads) thread.join();
}

/// Whether an object of a JSON text, which may be unfinished, has a key twice.
bool has_repeat(const std::string& text) {
  std::vector<std::set<std::string>> open;
  std::string before = "";  // the last character outside strings
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{') open.emplace_back();
    if (text[at] == '[') open.push_back({"["});
    if (text[at] == '}' || text[at] == ']') open.pop_back();
    if (text[at] == '"') {
      std::size_t end = at + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) return false;
      const bool is_key = before == "{" || (before == "," && !open.back().contains("["));
      if (is_key && !open.back().insert("k" + text.substr(at, end - at)).second) return true;
      at = end;
    }
    if (text[at] != ' ') before = text[at];
  }
  return false;
}

TEST(Keys, never_repeat_and_every_other_token_stays_allowed) {
  const auto trie = small_trie();
  for (const char* schema :
       {R"({"type": "object"})", R"({"type": "object", "additionalProperties": {"const": 1}})",
        R"({"type": "object", "properties": {"a": {"const": 1}},
            "additionalProperties": {"type": "object"}})"}) {
    SCOPED_TRACE(schema);
    const auto table = table_of(Grammar::from_schema(schema), trie);
    std::mt19937 random(31);
    std::size_t own = 0;
    for (int walk = 0; walk < 30; ++walk) {
      Constraint constraint(table);
      std::string text;
      for (int count = 0; count < 40 && !constraint.has_ended(); ++count) {
        const Constraint::Allowed allowed = constraint.allowed();
        own += !allowed.state;
        const auto shared = table->mask(constraint.state());
        std::vector<std::int32_t> usual;
        for (const std::int32_t token : tokens_of(*shared)) {
          const std::string bytes(trie->bytes(token));
          ASSERT_EQ(is_allowed(*allowed.mask, token), !has_repeat(text + bytes)) << text + bytes;
          // Short keys, so that they meet again.
          if (is_allowed(*allowed.mask, token) &&
              (bytes.find('a') != bytes.npos || random() % 4 == 0))
            usual.push_back(token);
        }
        const auto all = tokens_of(*allowed.mask);
        const std::int32_t token =
            usual.empty() ? all[random() % all.size()] : usual[random() % usual.size()];
        ASSERT_TRUE(constraint.advance(token));
        text += trie->bytes(token);
      }
    }
    EXPECT_GT(own, 20u) << "no key came near a repeat";
  }
}

TEST(Keys, that_repeat_are_refused_though_the_automaton_would_take_them) {
  std::vector<std::string> tokens{"{\"a\":1", ",\"a", "\":2", "b\":2", "}", ""};
  const auto table =
      table_of(Grammar::any_object(), std::make_shared<const TokenTrie>(tokens, std::vector{5}));
  Constraint constraint(table);
  ASSERT_TRUE(constraint.advance(0));
  ASSERT_TRUE(constraint.advance(1));
  EXPECT_FALSE(constraint.advance(2));
  EXPECT_FALSE(constraint.allowed().state);
  ASSERT_TRUE(constraint.advance(3));
  EXPECT_TRUE(constraint.allowed().state);
  ASSERT_TRUE(constraint.advance(4));
  EXPECT_TRUE(constraint.can_end());
}

TEST(Keys, matter_only_to_masks_with_a_token_that_ends_one) {
  // A token of its own for each place; only ',"b":3' has a whole key in it.
  std::vector<std::string> tokens{"{", "\"", "a", "\":", "\"x", "y", "\"", ",\"b\":3", "}", ""};
  const auto table =
      table_of(Grammar::any_object(), std::make_shared<const TokenTrie>(tokens, std::vector{9}));
  Constraint constraint(table);
  const auto after = [&](std::int32_t token) {
    EXPECT_TRUE(constraint.advance(token)) << token;
    return constraint.allowed().ends_no_key;
  };
  EXPECT_TRUE(after(0)) << "{";
  EXPECT_FALSE(after(1)) << "a key begins";
  EXPECT_FALSE(constraint.loops_on_plain());
  EXPECT_FALSE(after(2)) << "and goes on";
  EXPECT_TRUE(after(3)) << "a value follows";
  EXPECT_TRUE(after(4)) << "within a value";
  EXPECT_TRUE(constraint.loops_on_plain());
  EXPECT_TRUE(after(5));
  EXPECT_FALSE(after(6)) << "a whole key may follow at once";
  EXPECT_FALSE(after(7));
  EXPECT_FALSE(constraint.allowed().state) << "not the same one again";
}

/// Prints times; asserts nothing about them. docs/grammar.md has the command.
TEST(MaskTimes, DISABLED_of_states_at_a_real_vocabulary) {
  const std::filesystem::path path = "../shared/fixtures/tokenizers/qwen2.5";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto now = [] {  // of the processor, in ms, so that other programs do not count
    std::timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  const text::Tokenizer tokenizer = text::open_tokenizer(path);
  double since = now();
  // As many tokens as Llama 3 has.
  std::vector<std::string> tokens(128'256);
  for (std::int32_t id = 0; id < 128'000; ++id)
    if (!tokenizer.is_special(id)) tokens[static_cast<std::size_t>(id)] = tokenizer.bytes(id);
  const auto trie = std::make_shared<const TokenTrie>(tokens, std::vector{128'009});
  std::printf("%zu tokens, %zu nodes, trie in %.0f ms\n", trie->vocabulary_size(),
              trie->nodes().size(), now() - since);
  std::printf("%-28s %10s %8s %8s %8s %8s\n", "grammar", "compile ms", "masks", "median", "p99",
              "most ms");
  const std::pair<const char*, const char*> schemas[] = {
      {"any object", R"({"type": "object"})"},
      {"string", R"({"type": "string"})"},
      {"string of 1000 characters", R"({"type": "string", "maxLength": 1000})"},
      {"email", R"({"type": "string", "format": "email"})"},
      {"record", R"({"type": "object", "properties": {"name": {"type": "string"},
         "age": {"type": "integer", "minimum": 0, "maximum": 150}, "tags": {"type": "array",
         "items": {"type": "string"}}, "born": {"type": "string", "format": "date"}},
         "required": ["name", "age", "tags", "born"], "additionalProperties": false})"},
      {"array of numbers", R"({"type": "array", "items": {"type": "number"}})"},
  };
  for (const auto& [name, schema] : schemas) {
    since = now();
    auto grammar = std::make_shared<const Grammar>(Grammar::from_schema(schema));
    const double compile = now() - since;
    const auto table = std::make_shared<StateTable>(grammar, trie);
    std::mt19937 random(41);
    std::set<State> seen;
    std::vector<double> times;
    for (int walk = 0; walk < 20; ++walk) {
      Constraint constraint(table);
      for (int count = 0; count < 100 && !constraint.has_ended(); ++count) {
        const bool is_new = seen.insert(constraint.state()).second;
        since = now();
        const auto mask = constraint.allowed().mask;
        if (is_new) times.push_back(now() - since);
        const auto allowed = tokens_of(*mask);
        (void)constraint.advance(allowed[random() % allowed.size()]);
      }
    }
    std::sort(times.begin(), times.end());
    std::printf("%-28s %10.1f %8zu %8.2f %8.2f %8.2f\n", name, compile, times.size(),
                times[times.size() / 2], times[times.size() * 99 / 100], times.back());
  }
}

}  // namespace
}  // namespace attacca::grammar
