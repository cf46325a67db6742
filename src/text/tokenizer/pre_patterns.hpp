// pre_patterns.hpp: the patterns by which byte-level tokenizers of GGUF files split text. GGUF only
// gives a name for them, tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attacca::text {

struct PrePattern {
  std::vector<std::string_view> names;
  std::vector<std::string_view> patterns;  // applied in order; matches are isolated
  bool ignores_merges = false;
  bool is_nfc = false;  // the tokenizer normalizes to NFC, which GGUF does not say
};

/// Null if the name is not known.
const PrePattern* find_pre_pattern(std::string_view name);

/// All names, for messages.
std::string known_pre_patterns();

}  // namespace attacca::text
