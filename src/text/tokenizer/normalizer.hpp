// normalizer.hpp: what a tokenizer does to text before it is split: Unicode normal forms, lower
// case, replacements, a prefix, stripping.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/regex.hpp"

namespace attacca::text {

/// Text that remembers which bytes are literal, meaning that no added token may be read in them.
struct MarkedText {
  std::string text;        // valid UTF-8
  std::string is_literal;  // empty, or one flag (0 or 1) per byte of `text`
};

/// Writes a changed copy of a text, front to back, and carries the flags along.
class TextRewriter {
 public:
  /// Throws Error rather than write more than `most_bytes`.
  explicit TextRewriter(const MarkedText& from, std::size_t most_bytes = std::string::npos)
      : from_(from), most_bytes_(most_bytes) {}
  /// Copies the next `count` bytes.
  void keep(std::size_t count);
  /// Writes `with` for the next `count` bytes. Bytes equal at either end keep their flags; what
  /// changed is literal where any of the bytes it replaces was.
  void replace(std::size_t count, std::string_view with);
  /// What was written, followed by what was not yet read.
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
    std::string text;  // before every text that is not empty
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
