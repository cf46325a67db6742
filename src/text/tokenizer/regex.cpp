// regex.cpp: compiles patterns with PCRE2, with its JIT if there is one, and finds all matches.
#include "text/tokenizer/regex.hpp"

#include <fmt/core.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <algorithm>
#include <attacca/error.hpp>
#include <cctype>
#include <cstdint>

#include "core/in_quotes.hpp"
#include "text/utf8.hpp"

namespace attacca::text {
namespace {

constexpr std::uint32_t kLeastSteps = 10'000'000;  // PCRE2's own limit
constexpr std::uint64_t kMostSteps = 1'000'000'000;
constexpr std::uint64_t kStepsPerByte = 16;
constexpr std::uint32_t kMostHeapKibi = 256 * 1024;
constexpr std::size_t kMostPatternBytes = 32 * 1024;

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
template <class T>
using Owned = std::unique_ptr<T, FreeMatch>;

std::string reason_for(int code) {
  PCRE2_UCHAR text[256];
  if (pcre2_get_error_message(code, text, sizeof text) < 0) return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

void Regex::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Regex::Regex(std::string_view pattern, std::string_view where)
    : Regex(pattern, to_pcre(pattern, where), where) {}

Regex Regex::literal(std::string_view text, std::string_view where) {
  std::string escaped;
  for (const char letter : text) {
    const bool is_word = static_cast<unsigned char>(letter) >= 0x80 || letter == '_' ||
                         std::isalnum(static_cast<unsigned char>(letter));
    if (!is_word) escaped += '\\';
    escaped += letter;
  }
  Regex regex(text, escaped, where);
  regex.literal_ = text;
  return regex;
}

Regex::Regex(std::string_view pattern, const std::string& translated, std::string_view where)
    : pattern_(pattern), where_(where) {
  if (translated.size() > kMostPatternBytes)
    throw BadArgument(fmt::format("{}: a regular expression of {} bytes; at most {}", where,
                                  translated.size(), kMostPatternBytes));
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  std::size_t offset = 0;
  // In Oniguruma ^ and $ match at every line.
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &code, &offset, context.get()));
  if (!code_) {
    throw BadArgument(fmt::format("{}: regular expression {} does not compile: {}, near {}", where,
                                  in_quotes(pattern), reason_for(code),
                                  in_quotes(std::string_view(translated).substr(offset, 20))));
  }
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // if it fails, matching is only slower
}

void Regex::for_each_match(std::string_view text,
                           const std::function<void(TextRange)>& found) const {
  if (!literal_.empty()) {
    for (std::size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos;) {
      found({at, at + literal_.size()});
      at += literal_.size();
    }
    return;
  }
  const Owned<pcre2_match_data> match(pcre2_match_data_create(1, nullptr));
  const Owned<pcre2_match_context> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                                           kStepsPerByte * text.size(), kLeastSteps, kMostSteps)));
  pcre2_set_heap_limit(context.get(), kMostHeapKibi);
  const auto run = [&](std::size_t from, std::uint32_t options) {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, match.get(), context.get());
  };
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t last_end = kNone;
  for (std::size_t at = 0; at <= text.size();) {
    int result = run(at, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(at, PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) {
      throw Error(
          fmt::format("{}: regular expression {} gives up at byte {} of a text of {} bytes: "
                      "{}",
                      where_, in_quotes(pattern_), at, text.size(), reason_for(result)));
    }
    const std::size_t* ends = pcre2_get_ovector_pointer(match.get());
    const TextRange range{ends[0], ends[1]};
    if (range.begin == range.end && range.end == last_end) {
      if (at == text.size()) return;
      at += first_character(text.substr(at)).length;
      continue;
    }
    found(range);
    at = last_end = range.end;
  }
}

}  // namespace attacca::text
