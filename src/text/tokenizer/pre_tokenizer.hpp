// pre_tokenizer.hpp: cuts a text into words. BPE never merges across their borders.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/text_range.hpp"
#include "text/tokenizer/regex.hpp"

namespace attacca::text {

/// A text and its pieces, in order. Text that no piece covers was removed.
struct Pieces {
  std::string text;
  std::vector<TextRange> ranges;  // none empty
  bool is_at_start = true;  // the text is the first that is encoded, with no added token before
};

/// What a split does with its matches.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct PreTokenizer {
  struct Split {
    Regex pattern;
    SplitBehavior behavior = SplitBehavior::isolated;
    bool is_inverted = false;  // the text between matches counts as matched
  };
  /// Replaces every space by `with`.
  struct ReplaceSpaces {
    std::string with;
  };
  /// Puts `text` before every piece that does not begin with it.
  struct Prefix {
    std::string text;
    bool only_at_start = false;
  };
  /// Spells bytes in the byte alphabet.
  struct SpellBytes {};
  using Step = std::variant<Split, ReplaceSpaces, Prefix, SpellBytes>;

  std::vector<Step> steps;

  Pieces apply(std::string text, bool is_at_start) const;
};

/// The pattern of GPT-2, which byte-level tokenizers use unless told otherwise.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace attacca::text
