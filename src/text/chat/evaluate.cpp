// evaluate.cpp: evaluates expressions. Statements are in interpreter.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "text/chat/interpreter.hpp"
#include "text/chat/operators.hpp"

namespace attacca::text::chat {
namespace {

/// A bound on the steps that a comparison takes.
std::size_t comparison_cost(Operator op, const Value& left, const Value& right) {
  if (op == Operator::in || op == Operator::not_in)
    return right.extent().weight + right.cost() / 64;
  return std::min(left.extent().weight, right.extent().weight);
}

}  // namespace

/// One overload for each kind of expression.
struct Evaluate {
  Interpreter& run;
  std::size_t at;

  Value operator()(const Literal& node) const { return node.value; }
  Value operator()(const Name& node) const { return run.look_up(node.name); }

  Value operator()(const ListDisplay& node) const {
    Items items;
    for (const ExpressionPtr& item : node.items) items.push_back(run.evaluate(*item));
    return run.budget_.spend_for(node.is_tuple ? Value::tuple(std::move(items))
                                               : Value::list(std::move(items)));
  }

  Value operator()(const DictDisplay& node) const {
    Entries entries;
    for (const auto& [key_node, value_node] : node.entries) {
      Value key = run.evaluate(*key_node);
      Value value = run.evaluate(*value_node);
      run.budget_.spend_steps(entries.size());
      if (key.as_dict() || (key.as_list() && !key.as_list()->is_tuple) || key.is_undefined())
        throw Problem("a key is " + (key.is_undefined() ? key.why() : key.kind()));
      const auto known = std::find_if(entries.begin(), entries.end(),
                                      [&](const auto& entry) { return equal(entry.first, key); });
      if (known != entries.end())
        known->second = std::move(value);
      else
        entries.emplace_back(std::move(key), std::move(value));
    }
    return run.budget_.spend_for(Value::dict(std::move(entries)));
  }

  Value operator()(const Unary& node) const {
    const Value operand = run.evaluate(*node.operand);
    run.at_ = at;
    if (node.op == Operator::invert) return Value::boolean(!is_true(operand));
    if (operand.is_undefined()) throw Problem(operand.why());
    if (const double* real = operand.as_real())
      return Value::real(node.op == Operator::negate ? -*real : *real, operand.origin());
    if (!operand.as_integer() && !operand.as_boolean())
      throw Problem("a sign before " + operand.kind());
    return apply(node.op == Operator::negate ? Operator::subtract : Operator::add,
                 Value::integer(0), operand);
  }

  Value operator()(const Binary& node) const {
    Value left = run.evaluate(*node.left);
    if (node.op == Operator::both && !is_true(left)) return left;
    if (node.op == Operator::either && is_true(left)) return left;
    Value right = run.evaluate(*node.right);
    if (node.op == Operator::both || node.op == Operator::either) return right;
    run.at_ = at;
    return run.budget_.spend_for(apply(node.op, left, right));
  }

  Value operator()(const Comparison& node) const {
    Value left = run.evaluate(*node.first);
    for (const auto& [op, operand] : node.rest) {
      Value right = run.evaluate(*operand);
      run.at_ = at;
      run.budget_.spend_steps(comparison_cost(op, left, right));
      if (!is_true(apply(op, left, right))) return Value::boolean(false);
      left = std::move(right);
    }
    return Value::boolean(true);
  }

  Value operator()(const Choice& node) const {
    if (is_true(run.evaluate(*node.condition))) return run.evaluate(*node.chosen);
    if (node.otherwise) return run.evaluate(*node.otherwise);
    return Value::undefined("the 'if' in this expression was false, and it has no 'else'");
  }

  Value operator()(const Attribute& node) const {
    const Value object = run.evaluate(*node.object);
    run.at_ = at;
    Value value = attribute_of(object, node.name);
    if (value.as_callable()) run.budget_.spend_steps(object.extent().weight + object.cost() / 64);
    return value;
  }

  Value operator()(const Subscript& node) const {
    const Value object = run.evaluate(*node.object);
    const Value index = run.evaluate(*node.index);
    run.at_ = at;
    if (const Text* text = object.as_text()) run.budget_.spend_steps(text->size() / 64);
    return item_of(object, index);
  }

  Value operator()(const Slice& node) const {
    const auto bound = [&](const ExpressionPtr& one) {
      return one ? run.evaluate(*one) : Value::none();
    };
    const Value object = run.evaluate(*node.object);
    const Value begin = bound(node.begin);
    const Value end = bound(node.end);
    const Value step = bound(node.step);
    run.at_ = at;
    return run.budget_.spend_for(slice_of(object, begin, end, step));
  }

  Value operator()(const Call& node) const { return run.call(node); }

  Value operator()(const Filtered& node) const {
    return run.filtered(run.evaluate(*node.object), node.call);
  }

  Value operator()(const Tested& node) const {
    const Value object = run.evaluate(*node.object);
    const Arguments arguments = run.evaluate(node.arguments);
    run.at_ = at;
    std::size_t weight = object.extent().weight;
    for (const Value& argument : arguments.positional) weight += argument.extent().weight;
    run.budget_.spend_steps(arguments.positional.empty() ? 1 : weight);
    return Value::boolean(node.predicate->holds(object, arguments) != node.is_negated);
  }
};

Value Interpreter::evaluate(const Expression& expression) {
  const Budget::Level level(budget_);
  budget_.spend_steps(1);
  at_ = expression.at;
  return std::visit(Evaluate{*this, expression.at}, expression.node);
}

Arguments Interpreter::evaluate(const CallArguments& nodes) {
  Arguments arguments;
  for (const ExpressionPtr& node : nodes.positional)
    arguments.positional.push_back(evaluate(*node));
  if (nodes.rest)
    for (Value& item : iterate(evaluate(*nodes.rest)))
      add_item(arguments.positional, std::move(item));
  for (const auto& [name, node] : nodes.named) arguments.named.emplace_back(name, evaluate(*node));
  return arguments;
}

Value Interpreter::call(const Call& node, const Value* caller) {
  const std::size_t at = at_;
  const Value callee = evaluate(*node.callee);
  Arguments arguments = evaluate(node.arguments);
  if (caller) arguments.named.emplace_back("caller", *caller);
  at_ = at;
  const Callable* callable = callee.as_callable();
  if (!callable)
    throw Problem(callee.is_undefined() ? callee.why() + ", so it cannot be called"
                                        : callee.kind() + " cannot be called");
  const Budget::Level level(budget_);
  return budget_.spend_for(callable->call(arguments));
}

}  // namespace attacca::text::chat
