// Tests of corrupt tokenizer files: each gets a message with the field and the value, and none
// crashes or takes much memory.
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "text/tokenizer/pre_patterns.hpp"
#include "text/tokenizer/regex.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace attacca::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

json qwen() {
  static const json kData = json::parse(std::ifstream("tests/text/fixtures/tokenizer_qwen.json"));
  return kData;
}

/// The message that refuses the tokenizer after `change`; empty if it is not refused.
std::string refusal(const std::function<void(json&)>& change, std::string_view config = {}) {
  json data = qwen();
  change(data);
  try {
    Tokenizer::from_json(data.dump(), config);
  } catch (const BadArgument& error) {
    return error.what();
  }
  return "";
}

#define EXPECT_HAS(message, part) \
  EXPECT_NE(std::string(message).find(part), std::string::npos) << std::string(message)

TEST(TokenizerRefusal, what_is_no_json_is_refused_with_the_byte) {
  try {
    Tokenizer::from_json("{\"model\": [");
    FAIL();
  } catch (const BadArgument& error) {
    EXPECT_HAS(error.what(), "tokenizer.json: byte 12: not JSON");
  }
  EXPECT_THROW(Tokenizer::from_json(""), BadArgument);
  EXPECT_THROW(Tokenizer::from_json("[]"), BadArgument);
  EXPECT_THROW(Tokenizer::from_json("{\"model\": 1e999}"), BadArgument);
  EXPECT_THROW(Tokenizer::from_json(std::string(100000, '[')), BadArgument);
}

TEST(TokenizerRefusal, unknown_kinds_are_refused_by_name) {
  const auto typed = [](const char* field, const char* type) {
    return refusal([&](json& data) { data[field] = {{"type", type}}; });
  };
  EXPECT_HAS(typed("normalizer", "Precompiled"), "normalizer.type is 'Precompiled'");
  EXPECT_HAS(typed("pre_tokenizer", "UnicodeScripts"), "pre_tokenizer.type is 'UnicodeScripts'");
  EXPECT_HAS(typed("decoder", "WordPiece"), "decoder.type is 'WordPiece'");
  EXPECT_HAS(typed("post_processor", "BertProcessing"), "post_processor.type is 'BertProcessing'");
  EXPECT_HAS(refusal([](json& data) { data["model"]["type"] = "Unigram"; }),
             "model.type is 'Unigram'");
  EXPECT_HAS(refusal([](json& data) { data["model"]["dropout"] = 0.1; }), "model.dropout is 0.1");
  EXPECT_HAS(refusal([](json& data) { data["model"]["end_of_word_suffix"] = "</w>"; }), "</w>");
  EXPECT_HAS(
      refusal([](json& data) { data["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "X"; }),
      "pre_tokenizer.pretokenizers[0].behavior is 'X'");
}

TEST(TokenizerRefusal, ids_that_collide_or_run_away_are_refused) {
  EXPECT_HAS(refusal([](json& data) { data["model"]["vocab"]["zzz"] = 5; }),
             "model.vocab gives the id 5 to both");
  EXPECT_HAS(refusal([](json& data) { data["model"]["vocab"]["zzz"] = 4000000000; }), "4000000000");
  EXPECT_HAS(refusal([](json& data) { data["model"]["vocab"]["zzz"] = -1; }), "-1");
  EXPECT_HAS(refusal([](json& data) { data["model"]["vocab"]["zzz"] = 1.5; }), "1.5");
  EXPECT_HAS(refusal([](json& data) { data["added_tokens"][0]["id"] = 1u << 31; }),
             "added_tokens[0].id is 2147483648");
  EXPECT_HAS(refusal([](json& data) { data["added_tokens"][0]["id"] = 7; }),
             "added_tokens[0].content is '<|endoftext|>': its id is 7 here, and 0 before");
  EXPECT_HAS(refusal([](json& data) { data["added_tokens"].back()["id"] = 7; }),
             "added_tokens[4].content is '</tool>': its id 7 is that of");
  EXPECT_HAS(
      refusal([](json& data) { data["added_tokens"][0]["content"] = std::string(5000, 'a'); }),
      "5000 bytes; at most 1024");
}

TEST(TokenizerRefusal, merges_that_name_no_token_are_refused) {
  EXPECT_HAS(refusal([](json& data) {
               data["model"]["merges"][3] = {"zzzz", "a"};
             }),
             "model.merges[3] names 'zzzz', which is not in the vocabulary");
  EXPECT_HAS(refusal([](json& data) { data["model"]["merges"][0] = {"|", "~"}; }), "names '|~'");
  EXPECT_HAS(refusal([](json& data) { data["model"]["merges"][2] = "a b c"; }),
             "model.merges[2] is 'a b c'");
  EXPECT_HAS(refusal([](json& data) { data["model"]["merges"][2] = json::array({"a"}); }),
             "model.merges[2] is array");
  EXPECT_HAS(refusal([](json& data) { data["model"]["unk_token"] = "<none>"; }),
             "model.unk_token is '<none>'");
}

TEST(TokenizerRefusal, templates_and_configs_that_name_no_token_are_refused) {
  EXPECT_HAS(refusal([](json& data) {
               data["post_processor"] = {
                   {"type", "TemplateProcessing"},
                   {"single", {{{"SpecialToken", {{"id", "x"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                   {"special_tokens", {{"x", {{"ids", {77777}}}}}}};
             }),
             "post_processor.special_tokens.x.ids[0] is 77777: there is no such token");
  EXPECT_HAS(refusal([](json&) {}, R"({"eos_token": "<none>"})"),
             "tokenizer_config.json: eos_token is '<none>'");
}

/// The tokenizer with a normalizer nested in so many sequences.
std::string nested(int depth) {
  std::string opening;
  std::string closing;
  for (int level = 0; level < depth; ++level) {
    opening += R"({"type": "Sequence", "normalizers": [)";
    closing += "]}";
  }
  json data = qwen();
  data["normalizer"] = "here";
  std::string text = data.dump();
  return text.replace(text.find("\"here\""), 6, opening + R"({"type": "NFC"})" + closing);
}

TEST(TokenizerRefusal, chains_that_are_deep_or_long_are_refused) {
  EXPECT_NO_THROW(Tokenizer::from_json(nested(10)));
  try {
    Tokenizer::from_json(nested(20000));
    FAIL();
  } catch (const BadArgument& error) {
    EXPECT_HAS(error.what(), "nested deeper than 16");
  }
  EXPECT_HAS(
      refusal([](json& data) {
        data["normalizer"] = {{"type", "Sequence"}, {"normalizers", json(1000, {{"type", "NFC"}})}};
      }),
      "more than 64 steps");
}

TEST(TokenizerRefusal, a_text_that_a_normalizer_blows_up_is_an_error) {
  json data = qwen();
  const json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  data["normalizer"] = {{"type", "Sequence"}, {"normalizers", json(60, twice)}};
  EXPECT_THROW(Tokenizer::from_json(data.dump()).encode("a"), Error);
  data = qwen();
  data["decoder"] = {{"type", "Sequence"}, {"decoders", json(60, twice)}};
  const Tokenizer growing = Tokenizer::from_json(data.dump());
  EXPECT_THROW(growing.decode(growing.encode("a")), Error);
}

TEST(TokenizerRefusal, regular_expressions_that_do_not_compile_or_never_end_are_errors) {
  const auto split = [](const char* pattern) {
    json data = qwen();
    data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
    return data.dump();
  };
  for (const char* pattern : {"(", "[a", "a**", "\\p{Nope}", "[a&&b]", "[a[b]]", "(?m:a)", "a(?i)b",
                              "\\Q", "\\K", "(*UTF)", "\\u12", "\\", "x{3}?", "(?<=a+)b", "[]"}) {
    try {
      Tokenizer::from_json(split(pattern));
      FAIL() << pattern;
    } catch (const BadArgument& error) {
      EXPECT_HAS(error.what(),
                 "pre_tokenizer.pretokenizers[0].pattern.Regex: regular expression '");
    }
  }
  const Tokenizer endless = Tokenizer::from_json(split("(a|aa)+$"));
  EXPECT_THROW(endless.encode(std::string(200, 'a') + "b"), Error);
}

TEST(TokenizerRefusal, patterns_are_rewritten_for_what_they_mean_to_oniguruma) {
  EXPECT_EQ(to_pcre("a\\hb", ""), "a[0-9A-Fa-f]b");
  EXPECT_EQ(to_pcre("\\p{L}{1,3}+", ""), "(?:\\p{L}{1,3})+");
  EXPECT_EQ(to_pcre("(ab){,3}+c", ""), "(?:(ab){0,3})+c");
  EXPECT_EQ(to_pcre("[\\u00e9-\\u00eb]++", ""), "[\\x{00e9}-\\x{00eb}]++");
  EXPECT_EQ(to_pcre("{a}", ""), "{a}");
}

/// A correct vocabulary, for tests to change.
Vocabulary bytes_and_one_merge() {
  return {.model = "gpt2",
          .pre = "gpt-2",
          .tokens = {"a", "b", "ab", "<s>"},
          .types = {1, 1, 1, 3},
          .merges = {"a b"},
          .bos = 3};
}

std::string vocabulary_refusal(const std::function<void(Vocabulary&)>& change) {
  Vocabulary vocabulary = bytes_and_one_merge();
  change(vocabulary);
  try {
    Tokenizer::from_vocabulary(vocabulary, "m.gguf");
  } catch (const BadArgument& error) {
    return error.what();
  }
  return "";
}

TEST(TokenizerRefusal, vocabularies_that_lie_are_refused_with_the_key) {
  using V = Vocabulary;
  EXPECT_EQ(vocabulary_refusal([](V&) {}), "");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.model = "bert"; }), "tokenizer.ggml.model is 'bert'");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.pre = "martian"; }),
             "tokenizer.ggml.pre is 'martian'; attacca knows gpt-2, default");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.tokens.clear(); }), "tokens is empty");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.types = {1}; }), "token_type has 1 entries for 4");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.scores = {1}; }), "scores has 1 entries for 4");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.merges = {}; }), "merges is missing");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.merges = {"ab"}; }), "merges[0] is 'ab'");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.merges = {"a c"}; }), "'c' is no token");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.bos = 4; }), "bos_token_id is 4");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.eos = -7; }), "eos_token_id is -7");
  EXPECT_HAS(vocabulary_refusal([](V& v) { v.model = "llama"; }), "scores is missing");
  EXPECT_HAS(vocabulary_refusal([](V& v) {
               v.model = "llama";
               v.scores = {0, std::numeric_limits<float>::quiet_NaN(), 0, 0};
             }),
             "scores[1] is nan");
}

TEST(TokenizerRefusal, every_known_way_to_split_compiles_and_encodes) {
  std::string names = known_pre_patterns() + ", ";
  for (std::size_t end = 0; (end = names.find(", ")) != std::string::npos;
       names.erase(0, end + 2)) {
    Vocabulary vocabulary = bytes_and_one_merge();
    vocabulary.pre = names.substr(0, end);
    const Tokenizer tokenizer = Tokenizer::from_vocabulary(vocabulary, "m.gguf");
    EXPECT_EQ(tokenizer.encode("ab<s>ba"), (Ids{2, 3, 1, 0})) << vocabulary.pre;
  }
}

TEST(TokenizerRefusal, literal_ranges_outside_the_text_are_refused) {
  const Tokenizer tokenizer = Tokenizer::from_json(qwen().dump());
  for (const TextRange range : {TextRange{0, 4}, TextRange{2, 1}, TextRange{9, 9}})
    EXPECT_THROW(tokenizer.encode("abc", {.literal = {&range, 1}}), BadArgument);
}

TEST(TokenizerRefusal, files_with_random_changes_are_read_or_refused) {
  // The vocabulary is small, so that most changes hit other fields.
  json data = qwen();
  json vocab;
  for (const auto& [spelling, id] : data["model"]["vocab"].items())
    if (id < 270) vocab[spelling] = id;
  data["model"]["vocab"] = vocab;
  json merges;
  for (const json& merge : data["model"]["merges"])
    if (vocab.contains(merge[0].get<std::string>() + merge[1].get<std::string>()))
      merges.push_back(merge);
  data["model"]["merges"] = merges;
  data["added_tokens"].erase(4);
  data["added_tokens"].erase(3);
  const std::string original = data.dump();
  EXPECT_NO_THROW(Tokenizer::from_json(original));
  std::mt19937 random(11);
  int read = 0;
  for (int round = 0; round < 600; ++round) {
    std::string text = original;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 32));
          break;
        default:
          text[at] = "0123456789{}[]\",:"[random() % 17];
      }
    }
    try {
      const Tokenizer tokenizer = Tokenizer::from_json(text);
      tokenizer.decode(
          tokenizer.encode("it's 12 <|im_end|> \xF0\x9F\xA6 e\xCC\x81\n", {.add_special = true}));
      ++read;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(read, 10);
  EXPECT_LT(read, 600);
}

}  // namespace
}  // namespace attacca::text
