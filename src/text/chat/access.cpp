// access.cpp: reads attributes, indices and slices of values. The operators are in operators.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "text/chat/methods.hpp"
#include "text/chat/operators.hpp"
#include "text/chat/strings.hpp"
#include "text/chat/utf8.hpp"

namespace attacca::text::chat {
namespace {

Value cycled(const Loop& loop, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Problem("'loop.cycle' needs something to go through");
  return arguments.positional[loop.index % arguments.positional.size()];
}

Value loop_field(const Value& object, const std::string& name) {
  const Loop& loop = *object.as_loop();
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto length = static_cast<std::int64_t>(loop.items.size());
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "revindex") return Value::integer(length - index);
  if (name == "revindex0") return Value::integer(length - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == length);
  if (name == "length") return Value::integer(length);
  if (name == "previtem")
    return index > 0 ? loop.items[loop.index - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return index + 1 < length ? loop.items[loop.index + 1]
                              : Value::undefined("there is no next item");
  if (name == "cycle")
    return Value::callable(
        "loop.cycle",
        [object](const Arguments& arguments) { return cycled(*object.as_loop(), arguments); },
        &object);
  throw Problem(fmt::format("'loop.{}' is not supported", name));
}

Value missing(const Value& object, const std::string& name) {
  return Value::undefined(fmt::format("{} has no '{}'", object.kind(), name));
}

/// The place of a Python index, which may be negative; none if it is outside.
std::optional<std::size_t> place(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

Value element(const Value& object, std::int64_t index) {
  if (const List* list = object.as_list()) {
    const auto at = place(index, list->items.size());
    return at ? list->items[*at] : missing(object, fmt::format("item {}", index));
  }
  const Text& text = *object.as_text();
  const auto at = place(index, count_characters(text.bytes()));
  if (!at) return missing(object, fmt::format("character {}", index));
  const std::size_t begin = byte_of_character(text.bytes(), *at);
  return Value::text(text.part(begin, begin + character_at(text.bytes(), begin).size));
}

struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t step;
};

std::int64_t bound_of(const Value& value, std::int64_t otherwise, std::int64_t lowest,
                      std::int64_t highest, std::int64_t count) {
  if (value.is_none()) return otherwise;
  const std::int64_t* given = value.as_integer();
  if (!given)
    throw Problem("a slice's bound is " + (value.is_undefined() ? value.why() : value.kind()) +
                  ", not an integer");
  return std::clamp(*given < 0 ? *given + count : *given, lowest, highest);
}

Range range_of(const Value& begin, const Value& end, const Value& step, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t stride = bound_of(step, 1, -count - 1, count + 1, 0);
  if (stride == 0) throw Problem("a slice's step is zero");
  if (stride > 0)
    return {bound_of(begin, 0, 0, count, count), bound_of(end, count, 0, count, count), stride};
  return {bound_of(begin, count - 1, -1, count - 1, count), bound_of(end, -1, -1, count - 1, count),
          stride};
}

template <class Visit>
void visit_range(const Range& range, const Visit& visit) {
  for (std::int64_t at = range.begin; range.step > 0 ? at < range.end : at > range.end;
       at += range.step)
    visit(static_cast<std::size_t>(at));
}

Text slice_text(const Text& text, const Range& range) {
  if (range.step == 1) {
    if (range.begin >= range.end) return {};
    const std::size_t begin =
        byte_of_character(text.bytes(), static_cast<std::size_t>(range.begin));
    const std::string_view rest = std::string_view(text.bytes()).substr(begin);
    return text.part(
        begin, begin + byte_of_character(rest, static_cast<std::size_t>(range.end - range.begin)));
  }
  std::vector<std::size_t> starts;  // where each character starts, and the end
  for (std::size_t at = 0; at < text.size(); at += character_at(text.bytes(), at).size)
    starts.push_back(at);
  starts.push_back(text.size());
  Text result;
  visit_range(range, [&](std::size_t at) { result.append(text, starts[at], starts[at + 1]); });
  return result;
}

}  // namespace

Value attribute_of(const Value& object, const std::string& name) {
  if (object.is_undefined()) throw Problem(object.why());
  if (object.as_loop()) return loop_field(object, name);
  if (const Method* method = find_method(object, name))
    return Value::callable(
        name,
        [object, method](const Arguments& arguments) { return method->call(object, arguments); },
        &object);
  if (const Dict* dict = object.as_dict()) {
    const Value* found = dict->find(name);
    return found ? *found : missing(object, name);
  }
  if (const Namespace* space = object.as_namespace()) {
    for (const auto& [field, value] : space->fields)
      if (field == name) return value;
  }
  return missing(object, name);
}

Value item_of(const Value& object, const Value& index) {
  if (object.is_undefined()) throw Problem(object.why());
  if (const Dict* dict = object.as_dict())
    if (const Value* found = dict->find(index)) return *found;
  if (object.as_list() || object.as_text()) {
    if (const std::int64_t* integer = index.as_integer()) return element(object, *integer);
    if (const bool* boolean = index.as_boolean()) return element(object, *boolean ? 1 : 0);
  }
  if (const Text* name = index.as_text()) return attribute_of(object, name->bytes());
  return Value::undefined(fmt::format("{} has no such item", object.kind()));
}

Value path_of(const Value& object, const Value& path) {
  if (path.as_integer()) return item_of(object, path);
  const Text* text = path.as_text();
  if (!text) throw Problem("an attribute's name is " + path.kind() + ", not a string");
  Value value = object;
  const Text dot(".");
  for (const Text& part : split(*text, &dot)) {
    const std::string& name = part.bytes();
    const bool is_index = !name.empty() && name.size() < 10 &&
                          name.find_first_not_of("0123456789") == std::string::npos;
    value = item_of(value, is_index ? Value::integer(std::stoll(name)) : Value::text(part));
  }
  return value;
}

Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step) {
  if (object.is_undefined()) throw Problem(object.why());
  if (const Text* text = object.as_text())
    return Value::text(
        slice_text(*text, range_of(begin, end, step, count_characters(text->bytes()))));
  const List* list = object.as_list();
  if (!list) throw Problem(object.kind() + " cannot be sliced");
  Items items;
  visit_range(range_of(begin, end, step, list->items.size()),
              [&](std::size_t at) { items.push_back(list->items[at]); });
  return list->is_tuple ? Value::tuple(std::move(items), object.origin())
                        : Value::list(std::move(items), object.origin());
}

}  // namespace attacca::text::chat
