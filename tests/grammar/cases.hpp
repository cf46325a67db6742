// cases.hpp: the schemas of tests/grammar/fixtures, small vocabularies, and random answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "grammar/constraint.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace attacca::test {

using nlohmann::ordered_json;

struct Case {
  std::string name;
  ordered_json schema;
  std::vector<std::string> valid, invalid;
};

inline std::vector<Case> schema_cases() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/grammar/fixtures"))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Case> cases;
  for (const auto& path : paths) {
    std::ifstream file(path);
    for (const ordered_json& one : ordered_json::parse(file))
      cases.push_back({one["name"], one["schema"], one["valid"], one["invalid"]});
  }
  return cases;
}

/// Every byte, and last an end token.
inline std::shared_ptr<const grammar::TokenTrie> byte_trie() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back();
  return std::make_shared<const grammar::TokenTrie>(std::move(tokens),
                                                    std::vector<std::int32_t>{256});
}

/// Every byte and pieces of JSON. Some tokens have the same bytes; many are a quote, so random
/// texts end soon. The end token is the last.
inline std::shared_ptr<const grammar::TokenTrie> small_trie() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (int count = 0; count < 20; ++count) tokens.emplace_back("\"");
  for (const char* piece :
       {"\",",      "\":",      "\": \"", "{\"",    "\"}",    "}}",        "]}",    "},",
        "[]",       "{}",       "[[",     "null",   "true",   "false",     "12",    "00",
        "-1",       ".5",       "e1",     "\\n",    "\\u00",  "\\ud8",     "\xC3",  "\xA9",
        "\xF0\x9F", "\x99\x82", "é",      "日",     "ab",     "name",      "2024-", "a\":1,\"a\":",
        "\":1,\"",  ", \"",     "\"a\"",  "\"a\":", "\"b\":", "\",\"a\":", "\n",    "  "})
    tokens.emplace_back(piece);
  tokens.emplace_back();
  const auto end = static_cast<std::int32_t>(tokens.size() - 1);
  return std::make_shared<const grammar::TokenTrie>(std::move(tokens),
                                                    std::vector<std::int32_t>{end});
}

/// A byte-level tokenizer of 1,200 tokens, from the tests of src/text.
inline std::shared_ptr<const grammar::TokenTrie> tokenizer_trie() {
  std::ifstream file("tests/text/fixtures/tokenizer_qwen.json");
  const auto tokenizer = text::Tokenizer::from_json(nlohmann::json::parse(file).dump());
  return std::make_shared<const grammar::TokenTrie>(
      tokenizer, std::vector<std::int32_t>{*tokenizer.find("<|im_end|>")});
}

inline std::vector<std::int32_t> tokens_of(const grammar::Mask& mask) {
  std::vector<std::int32_t> tokens;
  for (std::size_t word = 0; word < mask.size(); ++word)
    for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
      tokens.push_back(static_cast<std::int32_t>(word * 32) + std::countr_zero(bits));
  return tokens;
}

/// Samples tokens that the masks allow until an end token, each as likely as any other. After
/// `patience` tokens, tokens that close something are preferred. Empty if the text does not end.
inline std::optional<std::string> random_text(const std::shared_ptr<grammar::StateTable>& table,
                                              std::mt19937& random, int patience) {
  grammar::Constraint constraint(table);
  std::string text;
  for (int count = 0; count < patience * 4; ++count) {
    const std::vector<std::int32_t> allowed = tokens_of(*constraint.allowed().mask);
    if (allowed.empty()) {
      ADD_FAILURE() << "a dead end after " << text;
      return std::nullopt;
    }
    std::int32_t token = allowed[random() % allowed.size()];
    if (count >= patience && random() % 8 != 0) {
      std::vector<std::int32_t> closing;
      for (const std::int32_t one : allowed) {
        const std::string_view bytes = table->trie().bytes(one);
        if (table->trie().is_end(one) || bytes == "}" || bytes == "]" || bytes == "\"")
          closing.push_back(one);
      }
      if (!closing.empty()) token = closing[random() % closing.size()];
    }
    if (!constraint.advance(token)) {
      ADD_FAILURE() << "a token of the mask is refused after " << text;
      return std::nullopt;
    }
    if (constraint.has_ended()) return text;
    text += table->trie().bytes(token);
  }
  return std::nullopt;
}

/// Whether the grammar's texts include this one, byte by byte.
inline bool accepts(const std::shared_ptr<grammar::StateTable>& table, std::string_view text) {
  const grammar::State state = table->advance_bytes(table->start(), text);
  return state != grammar::kDead && table->can_end(state);
}

}  // namespace attacca::test
