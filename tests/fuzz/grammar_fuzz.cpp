// grammar_fuzz.cpp: feeds any bytes to the parsers of JSON schemas and, after a '/', of regular
// expressions. They are either refused with a BadArgument or compiled; then bytes that the masks
// allow are followed, and none leads into a dead end.
#include <attacca/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/constraint.hpp"

namespace {

using namespace attacca::grammar;

constexpr std::int32_t kEnd = 256;

std::shared_ptr<const TokenTrie> byte_trie() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back();
  return std::make_shared<const TokenTrie>(std::move(tokens), std::vector{kEnd});
}

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<const TokenTrie> trie = byte_trie();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto grammar = std::make_shared<const Grammar>(
        text.starts_with('/') ? Grammar::from_regex(text.substr(1)) : Grammar::from_schema(text));
    Constraint constraint(std::make_shared<StateTable>(grammar, trie));
    std::uint32_t random = 1;
    for (int count = 0; count < 50 && !constraint.has_ended(); ++count) {
      const auto mask = constraint.allowed().mask;
      std::vector<std::int32_t> allowed;
      for (std::int32_t token = 0; token <= kEnd; ++token)
        if (is_allowed(*mask, token)) allowed.push_back(token);
      check(!allowed.empty());
      random = random * 1664525 + 1013904223;
      check(constraint.advance(allowed[(random >> 8) % allowed.size()]));
    }
  } catch (const attacca::BadArgument&) {
    return 0;
  }
  return 0;
}
