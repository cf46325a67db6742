// lexer.cpp: splits a template's source into tokens and applies the whitespace rules.
#include "text/chat/lexer.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "text/chat/string_literal.hpp"
#include "text/chat/utf8.hpp"

namespace attacca::text::chat {
namespace {

using Kind = Token::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    add(Kind::end, "", source_.size());
    return std::move(tokens_);
  }

 private:
  void add(Kind kind, std::string text, std::size_t at) {
    tokens_.push_back({kind, std::move(text), at});
  }

  bool starts(std::string_view what) const { return source_.substr(at_).starts_with(what); }

  bool take(std::string_view what) {
    if (!starts(what)) return false;
    at_ += what.size();
    return true;
  }

  std::size_t past_space(std::size_t at) const {
    while (at < source_.size()) {
      const Character one = character_at(source_, at);
      if (!is_space(one.code)) break;
      at += one.size;
    }
    return at;
  }

  static std::string_view without_space_at_end(std::string_view text) {
    while (!text.empty()) {
      const Character last = character_before(text, text.size());
      if (!is_space(last.code)) break;
      text.remove_suffix(last.size);
    }
    return text;
  }

  /// The text before a block, without the whitespace from the start of the line to the block.
  std::string_view without_indentation(std::string_view text) const {
    const std::size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !is_line_start_) return text;
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    const std::size_t kept = without_space_at_end(text).size();
    return kept <= line ? text.substr(0, line) : text;
  }

  /// Reads text up to the next {{, {% or {#, and then the output, block or comment that it opens.
  void read_data() {
    const std::size_t begin = at_;
    std::size_t open = begin;
    do {
      open = source_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= source_.size()) {
        add(Kind::data, std::string(source_.substr(begin)), begin);
        at_ = source_.size();
        return;
      }
      ++open;
    } while (std::string_view("{%#").find(source_[open]) == std::string_view::npos);
    --open;
    const char what = source_[open + 1];
    at_ = open + 2;
    add_data_before(source_.substr(begin, open - begin), begin, what != '{');
    if (what == '#')
      skip_comment(open);
    else if (what == '%' && !read_raw(open))
      read_inside(Kind::block_begin, Kind::block_end, "%}", open);
    else if (what == '{')
      read_inside(Kind::output_begin, Kind::output_end, "}}", open);
  }

  /// Adds the text before an opening mark. The sign after the mark says which whitespace to strip.
  void add_data_before(std::string_view text, std::size_t begin, bool is_block) {
    if (take("-"))
      text = without_space_at_end(text);
    else if (!take("+") && is_block)
      text = without_indentation(text);
    if (!text.empty()) add(Kind::data, std::string(text), begin);
  }

  /// Skips whitespace after a closing mark. `sign` is the character before the mark: '-' skips all
  /// whitespace, '+' none.
  void end_mark(char sign, bool is_block) {
    const std::size_t begin = at_;
    if (sign == '-')
      at_ = past_space(at_);
    else if (sign != '+' && is_block)
      take("\n");
    is_line_start_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void skip_comment(std::size_t open) {
    const std::size_t close = source_.find("#}", at_);
    if (close == std::string_view::npos) throw SyntaxProblem(open, "a comment without its '#}'");
    const char sign = close > at_ ? source_[close - 1] : ' ';
    at_ = close + 2;
    end_mark(sign, true);
  }

  /// Reads {% raw %} up to {% endraw %} as data. False: the block is none.
  bool read_raw(std::size_t open) {
    const std::size_t back = at_;
    at_ = past_space(at_);
    if (take("raw")) {
      at_ = past_space(at_);
      const bool has_sign = take("-");
      if (take("%}")) {
        if (has_sign) at_ = past_space(at_);
        is_line_start_ = false;
        read_raw_data(open);
        return true;
      }
    }
    at_ = back;
    return false;
  }

  void read_raw_data(std::size_t open) {
    const std::size_t begin = at_;
    for (std::size_t close = source_.find("{%", begin); close != std::string_view::npos;
         close = source_.find("{%", close + 1)) {
      const std::size_t sign_at = close + 2;
      const bool has_sign =
          sign_at < source_.size() && (source_[sign_at] == '-' || source_[sign_at] == '+');
      at_ = past_space(sign_at + has_sign);
      if (!take("endraw")) continue;
      at_ = past_space(at_);
      const char sign = starts("-%}") ? '-' : starts("+%}") ? '+' : ' ';
      if (sign != ' ') ++at_;
      if (!take("%}")) continue;
      const std::size_t end = at_;
      at_ = sign_at;
      add_data_before(source_.substr(begin, close - begin), begin, true);
      at_ = end;
      end_mark(sign, true);
      return;
    }
    throw SyntaxProblem(open, "'raw' without its 'endraw'");
  }

  void read_inside(Kind begin, Kind end, std::string_view close, std::size_t open) {
    add(begin, std::string(source_.substr(open, 2)), open);
    std::size_t nesting = 0;  // of brackets: inside them }} closes two dicts
    while (true) {
      at_ = past_space(at_);
      if (at_ >= source_.size())
        throw SyntaxProblem(open,
                            fmt::format("'{}' without its '{}'", source_.substr(open, 2), close));
      const std::size_t here = at_;
      if (nesting == 0) {
        const char sign = starts("-") ? '-' : starts("+") && end == Kind::block_end ? '+' : ' ';
        if (sign != ' ') ++at_;
        if (take(close)) {
          add(end, std::string(close), here);
          end_mark(sign, end == Kind::block_end);
          return;
        }
        at_ = here;
      }
      read_token(nesting);
    }
  }

  void read_token(std::size_t& nesting) {
    const std::size_t begin = at_;
    const char first = source_[begin];
    if (is_name_start(first)) {
      while (at_ < source_.size() && (is_name_start(source_[at_]) || is_digit(source_[at_]))) ++at_;
      add(Kind::name, std::string(source_.substr(begin, at_ - begin)), begin);
    } else if (is_digit(first)) {
      read_number();
    } else if (first == '"' || first == '\'') {
      at_ = end_of_string_literal(source_, begin);
      add(Kind::string, string_literal_value(source_, begin, at_), begin);
    } else {
      read_symbol(nesting);
    }
  }

  void read_digits(bool (*is_one)(char)) {
    while (at_ < source_.size() && (is_one(source_[at_]) || source_[at_] == '_')) ++at_;
  }

  void read_number() {
    const std::size_t begin = at_;
    const auto is_hex = [](char c) {
      return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    bool is_real = false;
    if (take("0x") || take("0X")) {
      read_digits(is_hex);
    } else {
      read_digits(is_digit);
      const bool is_after_dot = begin > 0 && source_[begin - 1] == '.';  // as in `pair.0.1`
      if (!is_after_dot && starts(".") && at_ + 1 < source_.size() && is_digit(source_[at_ + 1])) {
        is_real = true;
        ++at_;
        read_digits(is_digit);
      }
      std::size_t exponent = at_ + 1;
      if (starts("e") || starts("E")) {
        if (exponent < source_.size() && (source_[exponent] == '-' || source_[exponent] == '+'))
          ++exponent;
        if (exponent < source_.size() && is_digit(source_[exponent])) {
          is_real = true;
          at_ = exponent;
          read_digits(is_digit);
        }
      }
    }
    std::string digits(source_.substr(begin, at_ - begin));
    std::erase(digits, '_');
    add(is_real ? Kind::real : Kind::integer, std::move(digits), begin);
  }

  void read_symbol(std::size_t& nesting) {
    static constexpr std::string_view kSymbols[] = {
        "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
        ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|"};
    const std::size_t begin = at_;
    for (const std::string_view symbol : kSymbols) {
      if (!take(symbol)) continue;
      if (symbol == "(" || symbol == "[" || symbol == "{") ++nesting;
      if ((symbol == ")" || symbol == "]" || symbol == "}") && nesting > 0) --nesting;
      add(Kind::symbol, std::string(symbol), begin);
      return;
    }
    throw SyntaxProblem(begin, fmt::format("unexpected character '{}'", source_[begin]));
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool is_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case Kind::end:
      return "the end of the template";
    case Kind::data:
      return "text";
    case Kind::string:
      return "a string";
    default:
      return fmt::format("'{}'", token.text);
  }
}

std::string with_plain_newlines(std::string_view source) {
  std::string plain;
  plain.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\r') {
      plain += '\n';
      if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
    } else {
      plain += source[at];
    }
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string place_of(std::string_view source, std::size_t at) {
  const std::string_view before = source.substr(0, std::min(at, source.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  return fmt::format("line {}, column {}", line, 1 + count_characters(before.substr(start)));
}

}  // namespace attacca::text::chat
