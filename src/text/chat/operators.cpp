// operators.cpp: arithmetic on numbers, strings and lists with Python's results. Comparisons are in
// compare.cpp, attributes and slices in access.cpp.
#include "text/chat/operators.hpp"

#include <fmt/core.h>

#include <cmath>
#include <optional>

#include "text/chat/strings.hpp"

namespace attacca::text::chat {
namespace {

const char* symbol_of(Operator op) {
  switch (op) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::modulo:
      return "%";
    case Operator::power:
      return "**";
    default:
      return "this operator";
  }
}

[[noreturn]] void refuse(Operator op, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right})
    if (value->is_undefined()) throw Problem(value->why());
  throw Problem(fmt::format("'{}' between {} and {}", symbol_of(op), left.kind(), right.kind()));
}

std::optional<std::int64_t> integer_of(const Value& value) {
  if (const std::int64_t* integer = value.as_integer()) return *integer;
  if (const bool* boolean = value.as_boolean()) return *boolean ? 1 : 0;
  return std::nullopt;
}

std::optional<double> real_of(const Value& value) {
  if (const double* real = value.as_real()) return *real;
  if (const auto integer = integer_of(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::int64_t checked(bool is_overflow, std::int64_t result) {
  if (is_overflow) throw Problem("an integer of more than 64 bits");
  return result;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  bool is_overflow = false;
  while (exponent > 0 && !is_overflow) {
    if (exponent & 1) is_overflow = __builtin_mul_overflow(result, base, &result);
    exponent >>= 1;
    if (exponent > 0) is_overflow |= __builtin_mul_overflow(base, base, &base);
  }
  return checked(is_overflow, result);
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1) {
    std::int64_t negated = 0;
    return checked(__builtin_sub_overflow(std::int64_t{0}, a, &negated), negated);
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floored_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value on_integers(Operator op, std::int64_t a, std::int64_t b, Origin origin) {
  std::int64_t result = 0;
  bool is_overflow = false;
  switch (op) {
    case Operator::add:
      is_overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::subtract:
      is_overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::multiply:
      is_overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::divide:
      return Value::real(static_cast<double>(a) / static_cast<double>(b), origin);
    case Operator::floor_divide:
      result = floor_divide(a, b);
      break;
    case Operator::modulo:
      result = modulo(a, b);
      break;
    default:
      if (b < 0)
        return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)), origin);
      result = power(a, b);
  }
  return Value::integer(checked(is_overflow, result), origin);
}

double on_reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::multiply:
      return a * b;
    case Operator::divide:
      return a / b;
    case Operator::floor_divide:
      return std::floor(a / b);
    case Operator::modulo:
      return floored_modulo(a, b);
    default:
      return std::pow(a, b);
  }
}

Value repeated(const List& list, std::int64_t times, Origin origin) {
  Items items;
  if (!list.items.empty())
    for (std::int64_t done = 0; done < times; ++done)
      for (const Value& item : list.items) add_item(items, item);
  return list.is_tuple ? Value::tuple(std::move(items), origin)
                       : Value::list(std::move(items), origin);
}

/// Adds strings or lists, or multiplies one by an integer.
Value on_sequences(Operator op, const Value& left, const Value& right) {
  const Origin origin = either(left.origin(), right.origin());
  if (op == Operator::add) {
    if (const Text* a = left.as_text(), *b = right.as_text(); a && b) {
      Text both = *a;
      both.append(*b);
      return Value::text(std::move(both));
    }
    if (const List* a = left.as_list(), *b = right.as_list();
        a && b && a->is_tuple == b->is_tuple) {
      Items items = a->items;
      for (const Value& item : b->items) add_item(items, item);
      return a->is_tuple ? Value::tuple(std::move(items), origin)
                         : Value::list(std::move(items), origin);
    }
  }
  if (op == Operator::multiply) {
    const bool is_left = left.as_text() || left.as_list();
    const Value& sequence = is_left ? left : right;
    const std::optional<std::int64_t> times = integer_of(is_left ? right : left);
    const Text* text = sequence.as_text();
    if (times && text) return Value::text(repeat(*text, *times));
    if (const List* list = sequence.as_list(); times && list)
      return repeated(*list, *times, origin);
  }
  refuse(op, left, right);
}

Value arithmetic(Operator op, const Value& left, const Value& right) {
  const std::optional<double> a = real_of(left);
  const std::optional<double> b = real_of(right);
  if (!a || !b) return on_sequences(op, left, right);
  const bool is_division =
      op == Operator::divide || op == Operator::floor_divide || op == Operator::modulo;
  if ((is_division && *b == 0) || (op == Operator::power && *a == 0 && *b < 0))
    throw Problem("division by zero");
  const Origin origin = either(left.origin(), right.origin());
  const std::optional<std::int64_t> int_a = integer_of(left);
  const std::optional<std::int64_t> int_b = integer_of(right);
  if (int_a && int_b) return on_integers(op, *int_a, *int_b, origin);
  return Value::real(on_reals(op, *a, *b), origin);
}

}  // namespace

Value apply(Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::equal:
      return Value::boolean(equal(left, right));
    case Operator::not_equal:
      return Value::boolean(!equal(left, right));
    case Operator::less:
      return Value::boolean(is_less(left, right));
    case Operator::greater:
      return Value::boolean(is_less(right, left));
    case Operator::less_equal:
      return Value::boolean(is_less(left, right) || equal(left, right));
    case Operator::greater_equal:
      return Value::boolean(is_less(right, left) || equal(left, right));
    case Operator::in:
      return Value::boolean(contains(right, left));
    case Operator::not_in:
      return Value::boolean(!contains(right, left));
    case Operator::concatenate: {
      Text both = to_text(left);
      both.append(to_text(right));
      return Value::text(std::move(both));
    }
    default:
      return arithmetic(op, left, right);
  }
}

}  // namespace attacca::text::chat
