// pre_patterns.hpp: how the byte-level tokenizers of GGUF files split text, by the name in
// tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attacca::text {

struct PrePattern {
  std::vector<std::string_view> names;
  std::vector<std::string_view> patterns;  // one after the other, matches isolated
  bool ignores_merges = false;
  bool is_nfc = false;  // the tokenizer normalizes, which GGUF does not say
};

/// Null where the name is not known.
const PrePattern* find_pre_pattern(std::string_view name);

/// All names, for messages.
std::string known_pre_patterns();

}  // namespace attacca::text
