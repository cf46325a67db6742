// regex.hpp: runs the regular expressions of tokenizers on PCRE2. They are written for Oniguruma,
// which the `tokenizers` library uses. `to_pcre` rewrites the syntax in which the two differ.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "text/text_range.hpp"

struct pcre2_real_code_8;

namespace attacca::text {

/// A compiled pattern. Immutable and safe to use from many threads.
class Regex {
 public:
  /// Throws BadArgument with `where` and the place in the pattern that does not compile.
  Regex(std::string_view pattern, std::string_view where);
  /// A pattern that matches `text` itself, without PCRE2.
  static Regex literal(std::string_view text, std::string_view where);

  /// Calls `found` with every match in `text`, in order. Matches do not overlap, and no empty match
  /// comes right after another match. REQUIRES: `text` is valid UTF-8. Throws Error when a match
  /// takes more steps than any sensible pattern.
  void for_each_match(std::string_view text, const std::function<void(TextRange)>& found) const;

  const std::string& pattern() const { return pattern_; }

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  Regex(std::string_view pattern, const std::string& translated, std::string_view where);

  std::string pattern_;  // as written
  std::string literal_;  // the text that a literal pattern matches
  std::string where_;
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
};

/// Translates an Oniguruma pattern. Throws BadArgument for syntax without a counterpart in PCRE2.
std::string to_pcre(std::string_view pattern, std::string_view where);

}  // namespace attacca::text
