// letter_case.cpp: upper and lower case, and character classes, by the rules of Python's str.
// Unicode's mappings of one character to several are left out, except for the German sharp s.
#include <utf8proc.h>

#include "text/chat/strings.hpp"
#include "text/chat/utf8.hpp"

namespace attacca::text::chat {
namespace {

constexpr char32_t kSharpS = 0xDF;

enum class Case { lower, upper, title };

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool is_alpha(char32_t code) {
  const auto category = category_of(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT || category == UTF8PROC_CATEGORY_LM ||
         category == UTF8PROC_CATEGORY_LO;
}

bool is_cased(char32_t code) {
  const auto category = category_of(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

void append_in_case(std::string& out, char32_t code, Case wanted) {
  const auto point = static_cast<utf8proc_int32_t>(code);
  if (wanted == Case::lower) return append_utf8(out, utf8proc_tolower(point));
  if (code == kSharpS) {
    out += wanted == Case::upper ? "SS" : "Ss";
    return;
  }
  append_utf8(out, wanted == Case::upper ? utf8proc_toupper(point) : utf8proc_totitle(point));
}

/// The text with each character in the case that choose(code) returns. It is called in order.
template <class Choose>
Text in_case(const Text& text, Choose choose) {
  Text result;
  text.for_each_run([&](std::string_view run, Origin origin) {
    std::string mapped;
    for (std::size_t at = 0; at < run.size();) {
      const Character one = character_at(run, at);
      const Case wanted = choose(one.code);
      if (one.is_valid)
        append_in_case(mapped, one.code, wanted);
      else
        mapped += run[at];
      at += one.size;
    }
    result.append(mapped, origin);
  });
  return result;
}

template <class Test>
bool all_of(const Text& text, Test test) {
  const std::string_view bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const Character one = character_at(bytes, at);
    if (!test(one.code)) return false;
    at += one.size;
  }
  return true;
}

bool has_only_case(const Text& text, utf8proc_category_t wanted) {
  bool has_any = false;
  return all_of(text,
                [&](char32_t code) {
                  if (!is_cased(code)) return true;
                  has_any = true;
                  return category_of(code) == wanted;
                }) &&
         has_any;
}

}  // namespace

Text upper(const Text& text) {
  return in_case(text, [](char32_t) { return Case::upper; });
}

Text lower(const Text& text) {
  return in_case(text, [](char32_t) { return Case::lower; });
}

Text capitalize(const Text& text) {
  return in_case(text, [is_first = true](char32_t) mutable {
    return std::exchange(is_first, false) ? Case::title : Case::lower;
  });
}

Text title(const Text& text) {
  return in_case(text, [is_inside = false](char32_t code) mutable {
    return std::exchange(is_inside, is_cased(code)) ? Case::lower : Case::title;
  });
}

Text title_words(const Text& text) {
  return in_case(text, [is_inside = false](char32_t code) mutable {
    const bool is_break =
        is_space(code) || (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) !=
                                              std::string_view::npos);
    return std::exchange(is_inside, !is_break) ? Case::lower : Case::upper;
  });
}

bool is_all(const Text& text, Class what) {
  return !text.empty() && all_of(text, [what](char32_t code) {
    const bool is_digit = category_of(code) == UTF8PROC_CATEGORY_ND;
    switch (what) {
      case Class::digit:
        return is_digit;
      case Class::alpha:
        return is_alpha(code);
      case Class::alnum:
        return is_alpha(code) || is_digit;
      case Class::space:
        return is_space(code);
    }
    return false;
  });
}

bool is_upper(const Text& text) { return has_only_case(text, UTF8PROC_CATEGORY_LU); }
bool is_lower(const Text& text) { return has_only_case(text, UTF8PROC_CATEGORY_LL); }

}  // namespace attacca::text::chat
