// parser.hpp: turns tokens into a parsed template. Names of filters and tests are looked up here;
// names of variables are not.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/lexer.hpp"
#include "text/chat/syntax.hpp"

namespace attacca::text::chat {

class Parser {
 public:
  /// How deeply expressions and blocks may nest.
  static constexpr unsigned kMaxDepth = 150;

  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  /// Throws a SyntaxProblem with the token found and the one expected.
  Body parse();

 private:
  /// One level of recursion, for as long as it lives.
  class Level;

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool is_symbol(std::string_view symbol) const;
  bool is_word(std::string_view word) const;
  bool take_symbol(std::string_view symbol);
  bool take_word(std::string_view word);
  void expect_symbol(std::string_view symbol);
  std::string expect_name(std::string_view what);
  void expect_block_end();
  [[noreturn]] void fail(const std::string& what) const;

  // parse_statement.cpp
  /// Stops before a block that begins with one of the words in `ends`.
  Body parse_body(std::initializer_list<std::string_view> ends, std::string_view inside);
  /// Parses the body of a block that `break` and `continue` cannot leave, and the block's end.
  Body parse_closed_body(std::string_view end, std::string_view inside);
  void skip_end(std::string_view word);
  Statement parse_block();
  Statement parse_if();
  Statement parse_for();
  Statement parse_set();
  Statement parse_macro();
  Statement parse_call_block();
  Statement parse_filter_block();
  Statement parse_with();
  Statement parse_generation();
  Statement parse_jump(Jump jump);
  Target parse_target(bool may_be_field);
  Target parse_single_target(bool may_be_field);
  std::vector<std::pair<std::string, ExpressionPtr>> parse_parameters();

  // parse_expression.cpp, from the lowest precedence to the highest
  ExpressionPtr parse_tuple_or_expression();
  ExpressionPtr parse_expression(bool with_choice = true);
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_postfix(ExpressionPtr object);
  ExpressionPtr parse_filters(ExpressionPtr object);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_parentheses();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_test(ExpressionPtr object);
  FilterCall parse_filter_call();
  CallArguments parse_arguments();
  ExpressionPtr parse_number();
  bool is_at_expression_end() const;

  using Node = decltype(Expression::node);
  ExpressionPtr make(std::size_t at, Node node) const;
  ExpressionPtr parse_left_to_right(
      ExpressionPtr (Parser::*operand)(),
      std::initializer_list<std::pair<std::string_view, Operator>> operators);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
  unsigned loops_ = 0;
};

class Parser::Level {
 public:
  explicit Level(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxDepth) parser_.fail("the template nests too deeply");
  }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --parser_.depth_; }

 private:
  Parser& parser_;
};

}  // namespace attacca::text::chat
