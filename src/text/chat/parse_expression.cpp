// parse_expression.cpp: parses expressions with jinja's precedence.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "text/chat/parser.hpp"

namespace attacca::text::chat {
namespace {

using Kind = Token::Kind;

/// The depth of the deepest expression in a node.
struct DepthInside {
  unsigned operator()(const ExpressionPtr& one) const { return one ? one->depth : 0; }
  unsigned operator()(const std::vector<ExpressionPtr>& all) const {
    unsigned deepest = 0;
    for (const ExpressionPtr& one : all) deepest = std::max(deepest, (*this)(one));
    return deepest;
  }
  unsigned operator()(const CallArguments& arguments) const {
    unsigned deepest = std::max((*this)(arguments.positional), (*this)(arguments.rest));
    for (const auto& [name, value] : arguments.named) deepest = std::max(deepest, (*this)(value));
    return deepest;
  }
  unsigned operator()(const Literal&) const { return 0; }
  unsigned operator()(const Name&) const { return 0; }
  unsigned operator()(const ListDisplay& list) const { return (*this)(list.items); }
  unsigned operator()(const DictDisplay& dict) const {
    unsigned deepest = 0;
    for (const auto& [key, value] : dict.entries)
      deepest = std::max({deepest, (*this)(key), (*this)(value)});
    return deepest;
  }
  unsigned operator()(const Unary& node) const { return (*this)(node.operand); }
  unsigned operator()(const Binary& node) const {
    return std::max((*this)(node.left), (*this)(node.right));
  }
  unsigned operator()(const Comparison& node) const {
    unsigned deepest = (*this)(node.first);
    for (const auto& [op, operand] : node.rest) deepest = std::max(deepest, (*this)(operand));
    return deepest;
  }
  unsigned operator()(const Choice& node) const {
    return std::max({(*this)(node.condition), (*this)(node.chosen), (*this)(node.otherwise)});
  }
  unsigned operator()(const Attribute& node) const { return (*this)(node.object); }
  unsigned operator()(const Subscript& node) const {
    return std::max((*this)(node.object), (*this)(node.index));
  }
  unsigned operator()(const Slice& node) const {
    return std::max(
        {(*this)(node.object), (*this)(node.begin), (*this)(node.end), (*this)(node.step)});
  }
  unsigned operator()(const Call& node) const {
    return std::max((*this)(node.callee), (*this)(node.arguments));
  }
  unsigned operator()(const Filtered& node) const {
    return std::max((*this)(node.object), (*this)(node.call.arguments));
  }
  unsigned operator()(const Tested& node) const {
    return std::max((*this)(node.object), (*this)(node.arguments));
  }
};

}  // namespace

ExpressionPtr Parser::make(std::size_t at, Node node) const {
  const unsigned depth = 1 + std::visit(DepthInside{}, node);
  if (depth > kMaxDepth) throw SyntaxProblem(at, "the expression nests too deeply");
  return std::make_unique<Expression>(Expression{std::move(node), at, depth});
}

bool Parser::is_at_expression_end() const {
  return now().kind == Kind::output_end || now().kind == Kind::block_end || is_symbol(")") ||
         is_symbol("=") || is_word("in") || is_word("if") || is_word("recursive");
}

ExpressionPtr Parser::parse_tuple_or_expression() {
  const std::size_t at = now().at;
  ExpressionPtr first = parse_expression();
  if (!is_symbol(",")) return first;
  ListDisplay tuple{{}, true};
  tuple.items.push_back(std::move(first));
  while (take_symbol(",") && !is_at_expression_end()) tuple.items.push_back(parse_expression());
  return make(at, std::move(tuple));
}

ExpressionPtr Parser::parse_expression(bool with_choice) {
  const Level level(*this);
  ExpressionPtr value = parse_or();
  while (with_choice && is_word("if")) {
    const std::size_t at = take().at;
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise = take_word("else") ? parse_expression() : nullptr;
    value = make(at, Choice{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionPtr Parser::parse_left_to_right(
    ExpressionPtr (Parser::*operand)(),
    std::initializer_list<std::pair<std::string_view, Operator>> operators) {
  ExpressionPtr left = (this->*operand)();
  while (true) {
    const auto found = std::find_if(operators.begin(), operators.end(), [&](const auto& known) {
      return is_symbol(known.first) || is_word(known.first);
    });
    if (found == operators.end()) return left;
    const std::size_t at = take().at;
    ExpressionPtr right = (this->*operand)();
    left = make(at, Binary{found->second, std::move(left), std::move(right)});
  }
}

ExpressionPtr Parser::parse_or() {
  return parse_left_to_right(&Parser::parse_and, {{"or", Operator::either}});
}

ExpressionPtr Parser::parse_and() {
  return parse_left_to_right(&Parser::parse_not, {{"and", Operator::both}});
}

ExpressionPtr Parser::parse_not() {
  if (!is_word("not")) return parse_comparison();
  const Level level(*this);
  const std::size_t at = take().at;
  return make(at, Unary{Operator::invert, parse_not()});
}

ExpressionPtr Parser::parse_comparison() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::equal},         {"!=", Operator::not_equal}, {"<=", Operator::less_equal},
      {">=", Operator::greater_equal}, {"<", Operator::less},       {">", Operator::greater}};
  const std::size_t at = now().at;
  Comparison chain;
  chain.first = parse_sum();
  while (true) {
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                     [&](const auto& known) { return is_symbol(known.first); });
    Operator op = Operator::in;
    if (found != std::end(kOperators))
      op = found->second;
    else if (is_word("not") && ahead().kind == Kind::name && ahead().text == "in")
      op = Operator::not_in;
    else if (!is_word("in"))
      break;
    take();
    if (op == Operator::not_in) take();
    chain.rest.emplace_back(op, parse_sum());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(at, std::move(chain));
}

ExpressionPtr Parser::parse_sum() {
  return parse_left_to_right(&Parser::parse_concatenation,
                             {{"+", Operator::add}, {"-", Operator::subtract}});
}

ExpressionPtr Parser::parse_concatenation() {
  return parse_left_to_right(&Parser::parse_product, {{"~", Operator::concatenate}});
}

ExpressionPtr Parser::parse_product() {
  return parse_left_to_right(&Parser::parse_power, {{"*", Operator::multiply},
                                                    {"/", Operator::divide},
                                                    {"//", Operator::floor_divide},
                                                    {"%", Operator::modulo}});
}

ExpressionPtr Parser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (is_symbol("**")) {
    const std::size_t at = take().at;
    ExpressionPtr right = parse_unary(true);
    left = make(at, Binary{Operator::power, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr Parser::parse_unary(bool with_filters) {
  const Level level(*this);
  ExpressionPtr value;
  if (is_symbol("-") || is_symbol("+")) {
    const Token sign = take();
    value = make(sign.at,
                 Unary{sign.text == "-" ? Operator::negate : Operator::plus, parse_unary(false)});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters(std::move(value)) : std::move(value);
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr object) {
  while (true) {
    const std::size_t at = now().at;
    if (take_symbol(".")) {
      if (now().kind == Kind::integer) {
        ExpressionPtr index = parse_number();
        object = make(at, Subscript{std::move(object), std::move(index)});
      } else {
        std::string name = expect_name("the name of an attribute");
        object = make(at, Attribute{std::move(object), std::move(name)});
      }
    } else if (take_symbol("[")) {
      object = parse_subscript(std::move(object));
    } else if (take_symbol("(")) {
      CallArguments arguments = parse_arguments();
      object = make(at, Call{std::move(object), std::move(arguments)});
    } else {
      return object;
    }
  }
}

ExpressionPtr Parser::parse_filters(ExpressionPtr object) {
  while (true) {
    const std::size_t at = now().at;
    if (take_symbol("|")) {
      FilterCall call = parse_filter_call();
      object = make(at, Filtered{std::move(object), std::move(call)});
    } else if (take_word("is")) {
      object = parse_test(std::move(object));
    } else if (take_symbol("(")) {
      CallArguments arguments = parse_arguments();
      object = make(at, Call{std::move(object), std::move(arguments)});
    } else {
      return object;
    }
  }
}

ExpressionPtr Parser::parse_primary() {
  const Token token = now();
  if (token.kind == Kind::integer || token.kind == Kind::real) return parse_number();
  if (take_symbol("(")) return parse_parentheses();
  if (take_symbol("[")) return parse_list();
  if (take_symbol("{")) return parse_dict();
  if (token.kind == Kind::string) {
    std::string value;
    while (now().kind == Kind::string) value += take().text;
    return make(token.at, Literal{Value::text(Text(value))});
  }
  if (token.kind != Kind::name) fail("an expression is missing here");
  take();
  if (token.text == "true" || token.text == "True")
    return make(token.at, Literal{Value::boolean(true)});
  if (token.text == "false" || token.text == "False")
    return make(token.at, Literal{Value::boolean(false)});
  if (token.text == "none" || token.text == "None") return make(token.at, Literal{Value::none()});
  return make(token.at, Name{token.text});
}

ExpressionPtr Parser::parse_number() {
  const Token token = take();
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == Kind::real) {
    double number = 0;
    std::from_chars(begin, end, number);
    return make(token.at, Literal{Value::real(number)});
  }
  const bool is_hex = token.text.starts_with("0x") || token.text.starts_with("0X");
  std::int64_t number = 0;
  const auto [stop, error] =
      std::from_chars(begin + (is_hex ? 2 : 0), end, number, is_hex ? 16 : 10);
  if (error != std::errc() || stop != end)
    throw SyntaxProblem(token.at, fmt::format("'{}' is no number of 64 bits", token.text));
  return make(token.at, Literal{Value::integer(number)});
}

ExpressionPtr Parser::parse_parentheses() {
  const std::size_t at = now().at;
  if (take_symbol(")")) return make(at, ListDisplay{{}, true});
  ExpressionPtr inside = parse_tuple_or_expression();
  expect_symbol(")");
  return inside;
}

ExpressionPtr Parser::parse_list() {
  const std::size_t at = now().at;
  ListDisplay list;
  while (!take_symbol("]")) {
    if (!list.items.empty()) expect_symbol(",");
    if (take_symbol("]")) break;
    list.items.push_back(parse_expression());
  }
  return make(at, std::move(list));
}

ExpressionPtr Parser::parse_dict() {
  const std::size_t at = now().at;
  DictDisplay dict;
  while (!take_symbol("}")) {
    if (!dict.entries.empty()) expect_symbol(",");
    if (take_symbol("}")) break;
    ExpressionPtr key = parse_expression();
    expect_symbol(":");
    dict.entries.emplace_back(std::move(key), parse_expression());
  }
  return make(at, std::move(dict));
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr object) {
  const std::size_t at = now().at;
  ExpressionPtr parts[3];
  std::size_t colons = 0;
  while (!take_symbol("]")) {
    if (take_symbol(":")) {
      if (++colons > 2) fail("a slice has at most two colons");
    } else if (parts[colons]) {
      fail("']' is missing here");
    } else {
      parts[colons] = parse_expression();
    }
  }
  if (colons > 0)
    return make(at, Slice{std::move(object), std::move(parts[0]), std::move(parts[1]),
                          std::move(parts[2])});
  if (!parts[0]) fail("an index is missing before this");
  return make(at, Subscript{std::move(object), std::move(parts[0])});
}

FilterCall Parser::parse_filter_call() {
  FilterCall call;
  call.at = now().at;
  const std::string name = expect_name("the name of a filter");
  call.filter = find_filter(name);
  if (!call.filter)
    throw SyntaxProblem(call.at, fmt::format("the filter '{}' is not supported", name));
  if (take_symbol("(")) call.arguments = parse_arguments();
  return call;
}

ExpressionPtr Parser::parse_test(ExpressionPtr object) {
  Tested tested;
  tested.object = std::move(object);
  tested.is_negated = take_word("not");
  const std::size_t at = now().at;
  const std::string name = expect_name("the name of a test");
  tested.predicate = find_predicate(name);
  if (!tested.predicate)
    throw SyntaxProblem(at, fmt::format("the test '{}' is not supported", name));
  static constexpr std::string_view kOperators[] = {"else", "or", "and", "if", "is", "in", "not"};
  const bool is_operator =
      std::find(std::begin(kOperators), std::end(kOperators), now().text) != std::end(kOperators);
  if (take_symbol("("))
    tested.arguments = parse_arguments();
  else if ((now().kind == Kind::name && !is_operator) || now().kind == Kind::string ||
           now().kind == Kind::integer || now().kind == Kind::real || is_symbol("[") ||
           is_symbol("{"))
    tested.arguments.positional.push_back(parse_postfix(parse_primary()));
  if (is_word("is")) fail("a test of a test needs parentheses");
  return make(at, std::move(tested));
}

CallArguments Parser::parse_arguments() {
  CallArguments arguments;
  bool is_first = true;
  while (!take_symbol(")")) {
    if (!std::exchange(is_first, false)) expect_symbol(",");
    if (take_symbol(")")) break;
    if (is_symbol("**")) fail("arguments from a mapping are not supported");
    if (take_symbol("*")) {
      if (arguments.rest) fail("a second list of arguments");
      arguments.rest = parse_expression();
      continue;
    }
    if (now().kind == Kind::name && ahead().kind == Kind::symbol && ahead().text == "=") {
      std::string name = take().text;
      take();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!arguments.named.empty() || arguments.rest)
        fail("an argument without a name after those that come last");
      arguments.positional.push_back(parse_expression());
    }
  }
  return arguments;
}

}  // namespace attacca::text::chat
