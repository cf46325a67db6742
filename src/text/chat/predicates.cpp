// predicates.cpp: the table of jinja's tests, such as `is defined`.
#include "text/chat/predicates.hpp"

#include <algorithm>

#include "text/chat/strings.hpp"

namespace attacca::text::chat {
namespace {

bool is_integer(const Value& value) { return value.as_integer() != nullptr; }

std::int64_t integer_of(const Value& value, std::string_view test) {
  if (const std::int64_t* number = value.as_integer()) return *number;
  if (const bool* boolean = value.as_boolean()) return *boolean ? 1 : 0;
  throw Problem("the test '" + std::string(test) + "' takes an integer, not " + value.kind());
}

const Value& operand(const Arguments& arguments, std::string_view test) {
  return arguments.bind(test, {"other"}).required(0);
}

bool is_boolean(const Value& value, bool wanted) {
  return value.as_boolean() && *value.as_boolean() == wanted;
}

bool is_divisible(const Value& value, const Arguments& arguments) {
  const std::int64_t divisor = integer_of(operand(arguments, "divisibleby"), "divisibleby");
  if (divisor == 0) throw Problem("the test 'divisibleby' divides by zero");
  // x % -1 overflows for the smallest x.
  return divisor == -1 || integer_of(value, "divisibleby") % divisor == 0;
}

bool same(const Value& a, const Value& b) { return a.kind() == b.kind() && equal(a, b); }

// Each takes the value and the arguments behind the test's name.
constexpr Predicate kPredicates[] = {
    {"boolean", [](const Value& v, const Arguments&) { return v.as_boolean() != nullptr; }},
    {"callable", [](const Value& v, const Arguments&) { return v.as_callable() != nullptr; }},
    {"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"divisibleby", is_divisible},
    {"eq", [](const Value& v, const Arguments& a) { return equal(v, operand(a, "eq")); }},
    {"equalto", [](const Value& v, const Arguments& a) { return equal(v, operand(a, "equalto")); }},
    {"even", [](const Value& v, const Arguments&) { return integer_of(v, "even") % 2 == 0; }},
    {"false", [](const Value& v, const Arguments&) { return is_boolean(v, false); }},
    {"float", [](const Value& v, const Arguments&) { return v.as_real() != nullptr; }},
    {"ge", [](const Value& v, const Arguments& a) { return !is_less(v, operand(a, "ge")); }},
    {"greaterthan",
     [](const Value& v, const Arguments& a) { return is_less(operand(a, "greaterthan"), v); }},
    {"gt", [](const Value& v, const Arguments& a) { return is_less(operand(a, "gt"), v); }},
    {"in", [](const Value& v, const Arguments& a) { return contains(operand(a, "in"), v); }},
    {"integer", [](const Value& v, const Arguments&) { return is_integer(v); }},
    {"iterable",
     [](const Value& v, const Arguments&) {
       return v.as_list() || v.as_dict() || v.as_text() || v.as_loop() || v.is_undefined();
     }},
    {"le", [](const Value& v, const Arguments& a) { return !is_less(operand(a, "le"), v); }},
    {"lessthan",
     [](const Value& v, const Arguments& a) { return is_less(v, operand(a, "lessthan")); }},
    {"lower", [](const Value& v, const Arguments&) { return is_lower(to_text(v)); }},
    {"lt", [](const Value& v, const Arguments& a) { return is_less(v, operand(a, "lt")); }},
    {"mapping", [](const Value& v, const Arguments&) { return v.as_dict() != nullptr; }},
    {"ne", [](const Value& v, const Arguments& a) { return !equal(v, operand(a, "ne")); }},
    {"none", [](const Value& v, const Arguments&) { return v.is_none(); }},
    {"number", [](const Value& v,
                  const Arguments&) { return is_integer(v) || v.as_real() || v.as_boolean(); }},
    {"odd", [](const Value& v, const Arguments&) { return integer_of(v, "odd") % 2 != 0; }},
    {"sameas", [](const Value& v, const Arguments& a) { return same(v, operand(a, "sameas")); }},
    {"sequence",
     [](const Value& v, const Arguments&) {
       return v.as_list() || v.as_dict() || v.as_text() || v.is_undefined();
     }},
    {"string", [](const Value& v, const Arguments&) { return v.as_text() != nullptr; }},
    {"true", [](const Value& v, const Arguments&) { return is_boolean(v, true); }},
    {"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
    {"upper", [](const Value& v, const Arguments&) { return is_upper(to_text(v)); }},
};

}  // namespace

const Predicate* find_predicate(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kPredicates), std::end(kPredicates),
                   [&](const Predicate& predicate) { return predicate.name == name; });
  return found == std::end(kPredicates) ? nullptr : found;
}

}  // namespace attacca::text::chat
