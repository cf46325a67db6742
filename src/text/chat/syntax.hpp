// syntax.hpp: a parsed template: expressions and statements as plain data. `at` is a byte of the
// source, for messages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/chat/filters.hpp"
#include "text/chat/predicates.hpp"
#include "text/chat/value.hpp"

namespace attacca::text::chat {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Body = std::vector<Statement>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  ExpressionPtr rest;  // the list of `*list`, whose items follow the others; or null
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

enum class Operator {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  concatenate,
  both,
  either,
  negate,
  plus,
  invert,  // and, or, -x, +x, not x
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Unary {
  Operator op;
  ExpressionPtr operand;
};
struct Binary {
  Operator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
/// a < b < c: each value is compared with the next.
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<Operator, ExpressionPtr>> rest;
};
struct Choice {
  ExpressionPtr condition;
  ExpressionPtr chosen;
  ExpressionPtr otherwise;  // or null
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr index;
};
struct Slice {
  ExpressionPtr object;
  ExpressionPtr begin;  // each of these may be null
  ExpressionPtr end;
  ExpressionPtr step;
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterCall {
  const Filter* filter = nullptr;
  CallArguments arguments;
  std::size_t at = 0;
};
struct Filtered {
  ExpressionPtr object;
  FilterCall call;
};
struct Tested {
  ExpressionPtr object;
  const Predicate* predicate = nullptr;
  CallArguments arguments;
  bool is_negated = false;
};

struct Expression {
  std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, Binary, Comparison, Choice,
               Attribute, Subscript, Slice, Call, Filtered, Tested>
      node;
  std::size_t at = 0;
  unsigned depth = 1;
};

/// The target of a `set` or a `for`: a name, a field of a namespace, or several of them.
struct Target {
  std::string name;
  std::string field;  // of the namespace `name`; empty: the name itself
  std::vector<Target> parts;
};

struct Data {
  Text text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // or null
  Body body;
  Body otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
/// {% set x %}...{% endset %}, and {% filter f %}...{% endfilter %}, which has no target.
struct Captured {
  std::optional<Target> target;
  std::vector<FilterCall> filters;
  Body body;
};
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with a default, or null
  Body body;
};
/// {% call f(x) %}...{% endcall %}: f can call the body as the macro `caller`.
struct CallBlock {
  ExpressionPtr call;
  Macro body;
};
/// {% with a = 1 %}, and {% generation %}, which has no variables.
struct Scoped {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Body body;
};
enum class Jump { leave, next };  // break, continue

struct Statement {
  std::variant<Data, Output, If, For, Set, Captured, Macro, CallBlock, Scoped, Jump> node;
  std::size_t at = 0;
};

}  // namespace attacca::text::chat
