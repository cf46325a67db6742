// string_literal.cpp: reads quoted strings and resolves their escapes.
#include "text/chat/string_literal.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "text/chat/lexer.hpp"
#include "text/chat/utf8.hpp"

namespace attacca::text::chat {
namespace {

class Unescape {
 public:
  Unescape(std::string_view source, std::size_t begin, std::size_t end)
      : source_(source.substr(0, end - 1)), at_(begin + 1) {}

  std::string run() {
    while (at_ < source_.size()) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size())
        read_escape();
      else
        value_ += source_[at_++];
    }
    return std::move(value_);
  }

 private:
  void read_escape() {
    static constexpr std::string_view kPlain = "\\'\"abfnrtv";
    static constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";
    const std::size_t start = at_;
    const char letter = source_[at_ + 1];
    at_ += 2;
    if (const std::size_t known = kPlain.find(letter); known != std::string_view::npos)
      value_ += kMeaning[known];
    else if (letter == '\n')
      return;
    else if (letter >= '0' && letter <= '7')
      read_octal();
    else if (letter == 'x')
      append_utf8(value_, read_hex(2, start));
    else if (letter == 'u')
      append_utf8(value_, read_pair(start));
    else if (letter == 'U')
      append_utf8(value_, read_hex(8, start));
    else if (letter == 'N')
      throw SyntaxProblem(start, "the escape '\\N' is not supported; write the character itself");
    else
      (value_ += '\\') += letter;
  }

  void read_octal() {
    std::size_t end = at_;
    while (end < source_.size() && end < at_ + 2 && source_[end] >= '0' && source_[end] <= '7')
      ++end;
    unsigned code = 0;
    std::from_chars(source_.data() + at_ - 1, source_.data() + end, code, 8);
    at_ = end;
    append_utf8(value_, code);
  }

  char32_t read_hex(std::size_t digits, std::size_t start) {
    std::uint32_t code = 0;
    const char* begin = source_.data() + at_;
    const char* end = begin + std::min(digits, source_.size() - at_);
    const auto [stop, error] = std::from_chars(begin, end, code, 16);
    if (error != std::errc() || stop != begin + digits)
      throw SyntaxProblem(start, fmt::format("an escape needs {} hexadecimal digits here", digits));
    at_ += digits;
    return code;
  }

  /// Reads one \u escape, or two that are a UTF-16 surrogate pair.
  char32_t read_pair(std::size_t start) {
    const char32_t first = read_hex(4, start);
    const bool is_high = first >= 0xD800 && first < 0xDC00;
    if (!is_high || !source_.substr(at_).starts_with("\\u")) return first;
    const std::size_t back = at_;
    at_ += 2;
    const char32_t second = read_hex(4, back);
    if (second >= 0xDC00 && second < 0xE000)
      return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    at_ = back;
    return first;
  }

  std::string_view source_;
  std::size_t at_;
  std::string value_;
};

}  // namespace

std::size_t end_of_string_literal(std::string_view source, std::size_t begin) {
  for (std::size_t at = begin + 1; at < source.size(); ++at) {
    if (source[at] == '\\')
      ++at;
    else if (source[at] == source[begin])
      return at + 1;
  }
  throw SyntaxProblem(begin, "a string without its closing quote");
}

std::string string_literal_value(std::string_view source, std::size_t begin, std::size_t end) {
  return Unescape(source, begin, end).run();
}

}  // namespace attacca::text::chat
