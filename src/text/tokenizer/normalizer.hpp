// normalizer.hpp: changes a tokenizer makes to text before it is cut into words: Unicode normal
// forms, lower case, replacements, a prefix, stripping.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/regex.hpp"

namespace attacca::text {

/// Text that remembers which bytes are literal. No added token is recognised in literal bytes.
struct MarkedText {
  std::string text;        // valid UTF-8
  std::string is_literal;  // empty, or one flag (0 or 1) per byte of `text`
};

/// Writes a changed copy of a text, front to back, with its flags.
class TextRewriter {
 public:
  /// Throws Error if the copy would have more than `most_bytes`.
  explicit TextRewriter(const MarkedText& from, std::size_t most_bytes = std::string::npos)
      : from_(from), most_bytes_(most_bytes) {}
  /// Copies the next `count` bytes.
  void keep(std::size_t count);
  /// Replaces the next `count` bytes by `with`. Equal bytes at either end keep their flags. The
  /// bytes between are literal if any byte they replace was.
  void replace(std::size_t count, std::string_view with);
  /// Returns the copy, with the rest of the original behind it.
  MarkedText finish() &&;

 private:
  const MarkedText& from_;
  std::size_t most_bytes_;
  MarkedText to_;
  std::size_t at_ = 0;
};

enum class NormalForm { nfc, nfd, nfkc, nfkd };

struct Normalizer {
  struct Lowercase {};
  struct Replace {
    Regex pattern;
    std::string with;
  };
  struct Prepend {
    std::string text;  // put before every text that is not empty
  };
  struct Strip {
    bool is_left = true;
    bool is_right = true;
  };
  using Step = std::variant<NormalForm, Lowercase, Replace, Prepend, Strip>;

  std::vector<Step> steps;

  MarkedText apply(MarkedText text) const;
};

/// `text` in a normal form of Unicode.
MarkedText normal_form(MarkedText text, NormalForm form);

}  // namespace attacca::text
