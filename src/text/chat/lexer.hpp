// lexer.hpp: splits a template's source into tokens and applies jinja's whitespace rules with the
// options of transformers: trim_blocks, lstrip_blocks, and no newline at the very end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/text.hpp"

namespace attacca::text::chat {

/// A Problem at a known byte of the source.
class SyntaxProblem : public Problem {
 public:
  SyntaxProblem(std::size_t at, const std::string& what) : Problem(what), at_(at) {}
  std::size_t at() const { return at_; }

 private:
  std::size_t at_;
};

struct Token {
  enum class Kind {
    data,
    output_begin,
    output_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    symbol,
    end
  };
  Kind kind = Kind::end;
  std::string text;  // the data, the name, the symbol, the number's digits, the string's value
  std::size_t at = 0;
};

/// "'%}'", "name 'foo'", "the end of the template", for messages.
std::string describe(const Token& token);

/// The source with \n as newlines, and without the newline at its very end.
std::string with_plain_newlines(std::string_view source);

/// The last token is of kind `end`. REQUIRES: the source has plain newlines.
std::vector<Token> tokenize(std::string_view source);

/// "line 3, column 14" of a byte.
std::string place_of(std::string_view source, std::size_t at);

}  // namespace attacca::text::chat
