// compare.cpp: truth, equality, order and membership of values, by Python's rules.
#include <algorithm>

#include "text/chat/value.hpp"

namespace attacca::text::chat {
namespace {

/// Booleans are numbers, as in Python.
const std::int64_t* integer_of(const Value& value, std::int64_t& room) {
  if (const bool* boolean = value.as_boolean()) {
    room = *boolean ? 1 : 0;
    return &room;
  }
  return value.as_integer();
}

/// -1, 0 or 1 for two numbers; 2 if one is NaN or no number at all.
int compare_numbers(const Value& a, const Value& b) {
  std::int64_t room_a = 0;
  std::int64_t room_b = 0;
  const std::int64_t* int_a = integer_of(a, room_a);
  const std::int64_t* int_b = integer_of(b, room_b);
  if (int_a && int_b) return *int_a < *int_b ? -1 : *int_a > *int_b;
  const double* real_a = a.as_real();
  const double* real_b = b.as_real();
  if ((!int_a && !real_a) || (!int_b && !real_b)) return 2;
  const double left = int_a ? static_cast<double>(*int_a) : *real_a;
  const double right = int_b ? static_cast<double>(*int_b) : *real_b;
  if (left < right) return -1;
  if (left > right) return 1;
  return left == right ? 0 : 2;
}

bool is_number(const Value& value) {
  return value.as_boolean() || value.as_integer() || value.as_real();
}

bool equal_dicts(const Dict& a, const Dict& b) {
  return a.entries.size() == b.entries.size() &&
         std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
           const Value* other = b.find(entry.first);
           return other && equal(entry.second, *other);
         });
}

}  // namespace

bool is_true(const Value& value) {
  if (const bool* boolean = value.as_boolean()) return *boolean;
  if (const std::int64_t* integer = value.as_integer()) return *integer != 0;
  if (const double* real = value.as_real()) return *real != 0;
  if (const Text* text = value.as_text()) return !text->empty();
  if (const List* list = value.as_list()) return !list->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->entries.empty();
  return !value.is_undefined() && !value.is_none();
}

bool equal(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return compare_numbers(a, b) == 0;
  if (const Text* x = a.as_text(), *y = b.as_text(); x && y) return x->bytes() == y->bytes();
  if (const List* x = a.as_list(), *y = b.as_list(); x && y)
    return x->is_tuple == y->is_tuple &&
           std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), equal);
  if (const Dict* x = a.as_dict(), *y = b.as_dict(); x && y) return equal_dicts(*x, *y);
  if (a.as_namespace()) return a.as_namespace() == b.as_namespace();
  if (a.as_loop()) return a.as_loop() == b.as_loop();
  if (a.as_callable()) return a.as_callable() == b.as_callable();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool is_less(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return compare_numbers(a, b) == -1;
  // UTF-8 bytes have the same order as their characters.
  if (const Text* x = a.as_text(), *y = b.as_text(); x && y) return x->bytes() < y->bytes();
  if (const List* x = a.as_list(), *y = b.as_list(); x && y && x->is_tuple == y->is_tuple) {
    const auto [left, right] =
        std::mismatch(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), equal);
    if (left == x->items.end() || right == y->items.end()) return x->items.size() < y->items.size();
    return is_less(*left, *right);
  }
  for (const Value* value : {&a, &b})
    if (value->is_undefined()) throw Problem(value->why());
  throw Problem("no order between " + a.kind() + " and " + b.kind());
}

bool contains(const Value& where, const Value& what) {
  if (const Text* text = where.as_text()) {
    const Text* part = what.as_text();
    if (!part) throw Problem(what.kind() + " looked for in a string");
    return text->bytes().find(part->bytes()) != std::string::npos;
  }
  if (const Dict* dict = where.as_dict()) return dict->find(what) != nullptr;
  if (const List* list = where.as_list())
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& item) { return equal(item, what); });
  if (where.is_undefined()) return false;
  throw Problem("'in' looks into a string, a list or a mapping, not into " + where.kind());
}

}  // namespace attacca::text::chat
