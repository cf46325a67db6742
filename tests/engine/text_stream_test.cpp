// Tests of a reply's text as it comes: whole characters, and never the start of a possible stop
// string.
#include "engine/text_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "text/utf8.hpp"

namespace attacca::engine {
namespace {

using text::Tokenizer;
using Pieces = std::vector<std::string>;

/// A tokenizer of a few tokens. "Ġ" spells a space and "Ċ" a newline; "Ã", "©", "ð", "Ł", "Ļ" and
/// "Ĥ" spell the bytes C3, A9, F0, 9F, 99 and 82, parts of é and 🙂.
Tokenizer tokenizer() {
  const Pieces pieces = {
      "a",     "b",    "c",  "ab",    "E",      "EN",   "END",  "N",         "D", "nd", "xENDy",
      "aENDb", "Ġthe", "Ċ",  "User:", "ĊUser:", "ĊUs",  "er:",  "Ã",         "©", "ð",  "Ł",
      "Ļ",     "Ĥ",    "Ã©", "bc",    "cE",     "abab", "abac", "Assistant", "U", "s"};
  nlohmann::json vocabulary;
  std::int32_t id = 0;
  for (const std::string& piece : pieces) vocabulary[piece] = id++;
  const nlohmann::json json = {
      {"added_tokens", {{{"id", id}, {"content", "<end>"}, {"special", true}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  return Tokenizer::from_json(json.dump());
}

std::int32_t id_of(const Tokenizer& tokenizer, const std::string& piece) {
  const auto id = tokenizer.find(piece);
  if (!id) throw std::logic_error("the test's tokenizer has no token " + piece);
  return *id;
}

/// The text of each token, and at the end the text of `finish`. As in an engine, the token that
/// completes a stop string is the last.
Pieces streamed(const Pieces& tokens, const Pieces& stops) {
  const Tokenizer known = tokenizer();
  TextStream stream(known, {}, stops);
  Pieces texts;
  for (const std::string& token : tokens) {
    texts.push_back(stream.push(id_of(known, token)));
    if (stream.is_stopped()) break;
  }
  texts.push_back(stream.finish());
  return texts;
}

/// The text of all tokens, cut at the stop string that is complete after the fewest of them.
std::string cut_text(const Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens,
                     const Pieces& stops) {
  for (std::size_t count = 1; count <= tokens.size(); ++count) {
    const std::string text = tokenizer.decode({tokens.data(), count}, true);
    std::size_t end = std::string::npos;
    for (const std::string& stop : stops) end = std::min(end, text.find(stop));
    if (end != std::string::npos) return text.substr(0, end);
  }
  return tokenizer.decode(tokens, true);
}

TEST(TextStream, without_stop_strings_each_token_brings_its_text_at_once) {
  EXPECT_EQ(streamed({"a", "Ġthe", "END", "Ċ"}, {}), (Pieces{"a", " the", "END", "\n", ""}));
}

TEST(TextStream, a_stop_string_inside_one_token_ends_the_text_before_it) {
  EXPECT_EQ(streamed({"a", "xENDy", "b"}, {"END"}), (Pieces{"a", "x", ""}));
}

TEST(TextStream, a_stop_string_that_is_a_whole_token_leaves_nothing_of_it) {
  EXPECT_EQ(streamed({"a", "END", "b"}, {"END"}), (Pieces{"a", "", ""}));
}

TEST(TextStream, a_stop_string_across_tokens_never_shows_its_beginning) {
  EXPECT_EQ(streamed({"cE", "N", "D", "a"}, {"END"}), (Pieces{"c", "", "", ""}));
}

TEST(TextStream, a_stop_string_that_begins_and_ends_inside_tokens_is_found) {
  EXPECT_EQ(streamed({"bc", "ĊUs", "er:", "a"}, {"c\nUse"}), (Pieces{"b", "", "", ""}));
}

TEST(TextStream, what_only_began_like_a_stop_string_is_released_with_the_token_that_differs) {
  EXPECT_EQ(streamed({"a", "EN", "c", "b"}, {"END"}), (Pieces{"a", "", "ENc", "b", ""}));
}

TEST(TextStream, only_what_may_still_begin_a_stop_string_stays_withheld) {
  // "ababac" has "abac" not at its first letter but at its third.
  EXPECT_EQ(streamed({"abab", "a", "c"}, {"abac"}), (Pieces{"ab", "", "", ""}));
  EXPECT_EQ(streamed({"a", "abab", "b"}, {"abac"}), (Pieces{"", "aab", "abb", ""}));
  EXPECT_EQ(streamed({"E", "E", "EN", "E"}, {"END"}), (Pieces{"", "E", "E", "EN", "E"}));
}

TEST(TextStream, what_is_withheld_comes_when_the_reply_ends) {
  EXPECT_EQ(streamed({"a", "EN"}, {"END"}), (Pieces{"a", "", "EN"}));
}

TEST(TextStream, nothing_comes_after_a_stop_string) {
  const Tokenizer known = tokenizer();
  TextStream stream(known, {}, {"END"});
  EXPECT_EQ(stream.push(id_of(known, "aENDb")), "a");
  EXPECT_TRUE(stream.is_stopped());
  EXPECT_EQ(stream.push(id_of(known, "c")), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, of_several_stop_strings_the_earliest_in_the_text_ends_it) {
  for (const Pieces& stops : {Pieces{"y", "END"}, Pieces{"END", "y"}})
    EXPECT_EQ(streamed({"xENDy"}, stops), (Pieces{"x", ""}));
  EXPECT_EQ(streamed({"xENDy"}, {"NDy", "D"}), (Pieces{"xE", ""}));
}

TEST(TextStream, the_longest_beginning_of_any_stop_string_is_withheld) {
  EXPECT_EQ(streamed({"ab", "c"}, {"bcd", "abce"}), (Pieces{"", "", "abc"}));
  EXPECT_EQ(streamed({"ab", "c", "a"}, {"bcd", "abce"}), (Pieces{"", "", "abc", "a"}));
  EXPECT_EQ(streamed({"a", "bc", "E"}, {"abcd", "cE"}), (Pieces{"", "", "ab", ""}));
}

TEST(TextStream, a_stop_string_that_begins_another_one_wins_as_soon_as_it_is_there) {
  EXPECT_EQ(streamed({"a", "EN", "D"}, {"END", "EN"}), (Pieces{"a", "", ""}));
}

TEST(TextStream, a_stop_string_of_one_letter_withholds_nothing) {
  EXPECT_EQ(streamed({"a", "b", "c", "a"}, {"c"}), (Pieces{"a", "b", "", ""}));
}

TEST(TextStream, empty_stop_strings_are_ignored) {
  EXPECT_EQ(streamed({"a", "b"}, {""}), (Pieces{"a", "b", ""}));
  EXPECT_EQ(streamed({"a", "END"}, {"", "END"}), (Pieces{"a", "", ""}));
}

TEST(TextStream, half_a_character_is_withheld_until_the_other_half_comes) {
  EXPECT_EQ(streamed({"a", "Ã", "©", "b"}, {}), (Pieces{"a", "", "é", "b", ""}));
  EXPECT_EQ(streamed({"ð", "Ł", "Ļ", "Ĥ"}, {}), (Pieces{"", "", "", "🙂", ""}));
}

TEST(TextStream, half_a_character_at_the_end_of_a_reply_is_marked_as_broken) {
  EXPECT_EQ(streamed({"a", "Ã"}, {}), (Pieces{"a", "", "\uFFFD"}));
}

TEST(TextStream, a_stop_string_may_end_in_a_character_of_two_tokens) {
  EXPECT_EQ(streamed({"a", "b", "Ã", "©"}, {"bé"}), (Pieces{"a", "", "", "", ""}));
  EXPECT_EQ(streamed({"b", "Ã", "a"}, {"bé"}), (Pieces{"", "", "b\uFFFDa", ""}));
}

TEST(TextStream, a_withheld_beginning_is_whole_characters_too) {
  // é is C3 A9 and ê is C3 AA. The shared byte is no text, and characters are not torn apart.
  EXPECT_EQ(streamed({"a", "Ã©", "b"}, {"ê"}), (Pieces{"a", "é", "b", ""}));
}

TEST(TextStream, special_tokens_have_no_text_and_do_not_part_a_stop_string) {
  EXPECT_EQ(streamed({"a", "<end>", "b"}, {}), (Pieces{"a", "", "b", ""}));
  EXPECT_EQ(streamed({"EN", "<end>", "D"}, {"END", "<end>"}), (Pieces{"", "", "", ""}));
}

TEST(TextStream, a_stop_string_in_the_prompt_does_not_count_nor_does_its_end) {
  const Tokenizer known = tokenizer();
  const std::vector<std::int32_t> prompt = {id_of(known, "END"), id_of(known, "EN")};
  TextStream stream(known, prompt, {"END"});
  EXPECT_EQ(stream.push(id_of(known, "D")), "D");
  EXPECT_FALSE(stream.is_stopped());
}

TEST(TextStream, the_first_space_of_a_reply_stays_where_a_text_would_lose_it) {
  text::Vocabulary vocabulary{.model = "llama",
                              .tokens = {"<unk>", "▁Once", "▁upon"},
                              .scores = {0, -1, -2},
                              .types = {2, 1, 1}};
  const Tokenizer known = Tokenizer::from_vocabulary(vocabulary, "test");
  TextStream alone(known, {}, {});
  EXPECT_EQ(alone.push(2), "upon");
  const std::vector<std::int32_t> prompt = {1};
  TextStream stream(known, prompt, {});
  EXPECT_EQ(stream.push(2), " upon");
}

TEST(TextStream, however_a_text_is_streamed_it_is_the_decoded_text_cut_at_the_first_stop_string) {
  const Tokenizer known = tokenizer();
  const Pieces all_stops = {"END", "abac", "ba", "é", "\nUser:", "bb", "cE"};
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::int32_t> tokens(random() % 24);
    for (std::int32_t& token : tokens)
      token = static_cast<std::int32_t>(random() % static_cast<unsigned>(known.size()));
    Pieces stops;
    for (const std::string& stop : all_stops)
      if (random() % 3 == 0) stops.push_back(stop);

    const std::string expected = cut_text(known, tokens, stops);
    TextStream stream(known, {}, stops);
    std::string text;
    for (const std::int32_t token : tokens) {
      const std::string piece = stream.push(token);
      ASSERT_TRUE(text::is_utf8(piece)) << round;
      text += piece;
      ASSERT_TRUE(expected.starts_with(text)) << round << ": " << text << " | " << expected;
    }
    ASSERT_EQ(text + stream.finish(), expected) << round;
  }
}

}  // namespace
}  // namespace attacca::engine
