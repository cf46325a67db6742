// regex.hpp: the regular expressions of tokenizers, on PCRE2. They are written for Oniguruma, which
// the `tokenizers` library uses; `to_pcre` rewrites what the two read differently.
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
  /// A pattern that matches `text` itself; found without PCRE2.
  static Regex literal(std::string_view text, std::string_view where);

  /// Calls `found` with every match in `text`, in order; none overlap, and none is empty right
  /// after another. REQUIRES: `text` is valid UTF-8. Throws Error when a match takes more steps
  /// than any sensible pattern.
  void for_each_match(std::string_view text, const std::function<void(TextRange)>& found) const;

  const std::string& pattern() const { return pattern_; }

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  Regex(std::string_view pattern, const std::string& translated, std::string_view where);

  std::string pattern_;  // as written
  std::string literal_;  // the text it matches, where it is but that
  std::string where_;
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
};

/// An Oniguruma pattern as PCRE2 reads it. Throws BadArgument for what has no counterpart.
std::string to_pcre(std::string_view pattern, std::string_view where);

}  // namespace attacca::text
