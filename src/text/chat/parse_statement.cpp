// parse_statement.cpp: parses the text and the blocks of a template.
#include <fmt/core.h>

#include <algorithm>

#include "text/chat/parser.hpp"

namespace attacca::text::chat {

using Kind = Token::Kind;

void Parser::fail(const std::string& what) const {
  throw SyntaxProblem(now().at, fmt::format("{}; found {}", what, describe(now())));
}

Token Parser::take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }

bool Parser::is_symbol(std::string_view symbol) const {
  return now().kind == Kind::symbol && now().text == symbol;
}

bool Parser::is_word(std::string_view word) const {
  return now().kind == Kind::name && now().text == word;
}

bool Parser::take_symbol(std::string_view symbol) {
  if (!is_symbol(symbol)) return false;
  take();
  return true;
}

bool Parser::take_word(std::string_view word) {
  if (!is_word(word)) return false;
  take();
  return true;
}

void Parser::expect_symbol(std::string_view symbol) {
  if (!take_symbol(symbol)) fail(fmt::format("'{}' is missing here", symbol));
}

std::string Parser::expect_name(std::string_view what) {
  if (now().kind != Kind::name) fail(fmt::format("{} is missing here", what));
  return take().text;
}

void Parser::expect_block_end() {
  if (now().kind != Kind::block_end) fail("'%}' is missing here");
  take();
}

Body Parser::parse() { return parse_body({}, "the template"); }

Body Parser::parse_body(std::initializer_list<std::string_view> ends, std::string_view inside) {
  const Level level(*this);
  Body body;
  while (true) {
    const Token token = now();
    if (token.kind == Kind::end) {
      if (ends.size() > 0)
        fail(fmt::format("{} is open here, and its '{}' is missing", inside, *(ends.end() - 1)));
      return body;
    }
    take();
    if (token.kind == Kind::data) {
      body.push_back({Data{Text(token.text)}, token.at});
    } else if (token.kind == Kind::output_begin) {
      ExpressionPtr value = parse_tuple_or_expression();
      if (now().kind != Kind::output_end) fail("'}}' is missing here");
      take();
      body.push_back({Output{std::move(value)}, token.at});
    } else if (std::any_of(ends.begin(), ends.end(),
                           [&](std::string_view word) { return is_word(word); })) {
      return body;
    } else {
      body.push_back(parse_block());
    }
  }
}

Body Parser::parse_closed_body(std::string_view end, std::string_view inside) {
  const unsigned loops = std::exchange(loops_, 0);
  Body body = parse_body({end}, inside);
  loops_ = loops;
  skip_end(end);
  return body;
}

void Parser::skip_end(std::string_view word) {
  take_word(word);
  expect_block_end();
}

Statement Parser::parse_block() {
  static constexpr std::pair<std::string_view, Statement (Parser::*)()> kBlocks[] = {
      {"if", &Parser::parse_if},           {"for", &Parser::parse_for},
      {"set", &Parser::parse_set},         {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call_block}, {"filter", &Parser::parse_filter_block},
      {"with", &Parser::parse_with},       {"generation", &Parser::parse_generation}};
  const Token word = now();
  if (word.kind != Kind::name) fail("the name of a block is missing here");
  if (word.text == "break" || word.text == "continue")
    return parse_jump(word.text == "break" ? Jump::leave : Jump::next);
  const auto* found = std::find_if(std::begin(kBlocks), std::end(kBlocks),
                                   [&](const auto& known) { return known.first == word.text; });
  if (found == std::end(kBlocks))
    throw SyntaxProblem(word.at,
                        word.text.starts_with("end") || word.text.starts_with("el")
                            ? fmt::format("'{}' without the block it belongs to", word.text)
                            : fmt::format("the block '{}' is not supported", word.text));
  take();
  Statement statement = (this->*found->second)();
  statement.at = word.at;
  return statement;
}

Statement Parser::parse_if() {
  If node;
  while (true) {
    ExpressionPtr condition = parse_tuple_or_expression();
    expect_block_end();
    Body body = parse_body({"elif", "else", "endif"}, "'if'");
    node.branches.emplace_back(std::move(condition), std::move(body));
    if (take_word("elif")) continue;
    if (take_word("else")) {
      expect_block_end();
      node.otherwise = parse_body({"endif"}, "'else'");
    }
    skip_end("endif");
    return {std::move(node)};
  }
}

Statement Parser::parse_for() {
  For node;
  node.target = parse_target(false);
  if (!take_word("in")) fail("'in' is missing here");
  node.iterable = parse_expression(false);
  if (take_word("if")) node.condition = parse_expression();
  if (is_word("recursive")) fail("a recursive loop is not supported");
  expect_block_end();
  ++loops_;
  node.body = parse_body({"else", "endfor"}, "'for'");
  --loops_;
  if (take_word("else")) {
    expect_block_end();
    node.otherwise = parse_body({"endfor"}, "'else'");
  }
  skip_end("endfor");
  return {std::move(node)};
}

Statement Parser::parse_set() {
  Target target = parse_target(true);
  if (take_symbol("=")) {
    ExpressionPtr value = parse_tuple_or_expression();
    expect_block_end();
    return {Set{std::move(target), std::move(value)}};
  }
  Captured node;
  node.target = std::move(target);
  while (take_symbol("|")) node.filters.push_back(parse_filter_call());
  expect_block_end();
  node.body = parse_closed_body("endset", "'set'");
  return {std::move(node)};
}

Statement Parser::parse_filter_block() {
  Captured node;
  do node.filters.push_back(parse_filter_call());
  while (take_symbol("|"));
  expect_block_end();
  node.body = parse_closed_body("endfilter", "'filter'");
  return {std::move(node)};
}

std::vector<std::pair<std::string, ExpressionPtr>> Parser::parse_parameters() {
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;
  expect_symbol("(");
  while (!take_symbol(")")) {
    if (!parameters.empty()) expect_symbol(",");
    if (take_symbol(")")) break;
    std::string name = expect_name("the name of a parameter");
    ExpressionPtr otherwise = take_symbol("=") ? parse_expression() : nullptr;
    parameters.emplace_back(std::move(name), std::move(otherwise));
  }
  return parameters;
}

Statement Parser::parse_macro() {
  Macro node;
  node.name = expect_name("the name of a macro");
  node.parameters = parse_parameters();
  expect_block_end();
  node.body = parse_closed_body("endmacro", "'macro'");
  return {std::move(node)};
}

Statement Parser::parse_call_block() {
  CallBlock node;
  node.body.name = "caller";
  if (is_symbol("(")) node.body.parameters = parse_parameters();
  node.call = parse_expression();
  if (!std::holds_alternative<Call>(node.call->node)) fail("'call' needs a call before this");
  expect_block_end();
  node.body.body = parse_closed_body("endcall", "'call'");
  return {std::move(node)};
}

Statement Parser::parse_with() {
  Scoped node;
  while (now().kind != Kind::block_end) {
    if (!node.variables.empty()) expect_symbol(",");
    Target target = parse_single_target(false);
    expect_symbol("=");
    node.variables.emplace_back(std::move(target), parse_expression());
  }
  expect_block_end();
  node.body = parse_body({"endwith"}, "'with'");
  skip_end("endwith");
  return {std::move(node)};
}

Statement Parser::parse_generation() {
  Scoped node;
  expect_block_end();
  node.body = parse_body({"endgeneration"}, "'generation'");
  skip_end("endgeneration");
  return {std::move(node)};
}

Statement Parser::parse_jump(Jump jump) {
  const Token word = take();
  if (loops_ == 0) throw SyntaxProblem(word.at, fmt::format("'{}' outside of a 'for'", word.text));
  expect_block_end();
  return {jump, word.at};
}

Target Parser::parse_target(bool may_be_field) {
  Target first = parse_single_target(may_be_field);
  if (!is_symbol(",")) return first;
  Target all;
  all.parts.push_back(std::move(first));
  while (take_symbol(",") && !is_at_expression_end())
    all.parts.push_back(parse_single_target(may_be_field));
  return all;
}

Target Parser::parse_single_target(bool may_be_field) {
  const Level level(*this);
  Target target;
  if (take_symbol("(")) {
    target = parse_target(may_be_field);
    expect_symbol(")");
    return target;
  }
  target.name = expect_name("a variable to assign to");
  static constexpr std::string_view kConstants[] = {"true",  "True", "false",
                                                    "False", "none", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), target.name) != std::end(kConstants))
    throw SyntaxProblem(tokens_[at_ - 1].at,
                        fmt::format("'{}' cannot be assigned to", target.name));
  if (may_be_field && take_symbol(".")) target.field = expect_name("the name of a field");
  return target;
}

}  // namespace attacca::text::chat
