// normal_form.cpp: converts text to Unicode's normal forms with utf8proc's tables. A stable sort
// puts marks in order, because utf8proc's own sort takes quadratic time over a long run of them.
#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "text/tokenizer/normalizer.hpp"
#include "text/utf8.hpp"

namespace attacca::text {
namespace {

int combining_class(std::int32_t code) { return utf8proc_get_property(code)->combining_class; }

void sort_marks(std::span<std::int32_t> codes) {
  for (auto from = codes.begin(); from != codes.end();) {
    from = std::find_if(from, codes.end(), combining_class);
    const auto to = std::find_if_not(from, codes.end(),
                                     [](std::int32_t code) { return combining_class(code); });
    std::stable_sort(from, to, [](std::int32_t left, std::int32_t right) {
      return combining_class(left) < combining_class(right);
    });
    from = to;
  }
}

void decompose(std::int32_t code, utf8proc_option_t options, std::vector<std::int32_t>& codes) {
  constexpr std::size_t kMost = 32;  // the longest decomposition has 18
  const std::size_t before = codes.size();
  codes.resize(before + kMost);
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(code, codes.data() + before, kMost, options, &boundary);
  if (count >= 0 && count <= static_cast<utf8proc_ssize_t>(kMost)) {
    codes.resize(before + static_cast<std::size_t>(count));
  } else {
    codes[before] = code;
    codes.resize(before + 1);
  }
}

/// Writes the normal form of one stretch to `out`. `codes` is scratch.
void normalize(std::string_view text, NormalForm form, std::vector<std::int32_t>& codes,
               std::string& out) {
  const bool is_composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool is_compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  unsigned options = UTF8PROC_STABLE | (is_compatible ? UTF8PROC_COMPAT : 0);
  codes.clear();
  while (!text.empty()) {
    std::size_t length = 0;
    const char32_t code = first_code(text, &length);
    decompose(static_cast<std::int32_t>(code),
              static_cast<utf8proc_option_t>(options | UTF8PROC_DECOMPOSE), codes);
    text.remove_prefix(length);
  }
  sort_marks(codes);
  if (is_composed) {
    const utf8proc_ssize_t count =
        utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                 static_cast<utf8proc_option_t>(options | UTF8PROC_COMPOSE));
    codes.resize(static_cast<std::size_t>(std::max<utf8proc_ssize_t>(count, 0)));
  }
  out.clear();
  for (const std::int32_t code : codes) append_utf8(out, static_cast<char32_t>(code));
}

}  // namespace

MarkedText normal_form(MarkedText text, NormalForm form) {
  // No character below U+0300 combines with the character before it, so each begins a stretch of
  // its own. In NFC such a character alone is already normal; in the other forms only ASCII is.
  constexpr unsigned char kFirstMark = 0xCC;  // lead byte of U+0300
  const unsigned char inert_below = form == NormalForm::nfc ? kFirstMark : 0x80;
  const std::string_view all = text.text;
  const auto byte_at = [&](std::size_t at) { return static_cast<unsigned char>(all[at]); };
  // U+11A7 does not combine either, but utf8proc takes it for a final of Hangul and drops it.
  constexpr std::string_view kBeforeFinals = "\xE1\x86\xA7";
  const auto begins_stretch = [&](std::size_t at) {
    return byte_at(at) < 0x80 || (byte_at(at) >= 0xC0 && byte_at(at) < kFirstMark) ||
           all.substr(at).starts_with(kBeforeFinals);
  };
  const auto next_active = [&](std::size_t at) {
    while (at < all.size() && byte_at(at) < inert_below) ++at;
    return at;
  };

  std::size_t active = next_active(0);
  if (active == all.size()) return text;
  TextRewriter rewriter(text);
  std::vector<std::int32_t> codes;
  std::string normal;
  for (std::size_t kept = 0; active < all.size(); active = next_active(kept)) {
    std::size_t begin = active;
    while (begin > kept && !begins_stretch(begin)) --begin;
    std::size_t end = active + 1;
    while (end < all.size() && !begins_stretch(end)) ++end;
    normalize(all.substr(begin, end - begin), form, codes, normal);
    rewriter.keep(begin - kept);
    rewriter.replace(end - begin, normal);
    kept = end;
  }
  return std::move(rewriter).finish();
}

}  // namespace attacca::text
