// text_methods.cpp: the methods of strings. methods.cpp has those of lists and mappings.
#include <fmt/core.h>

#include <algorithm>

#include "text/chat/methods.hpp"
#include "text/chat/operators.hpp"
#include "text/chat/strings.hpp"

namespace attacca::text::chat {
namespace {

const Text& text_of(const Value& self) { return *self.as_text(); }

Value list_of(std::vector<Text> parts, Origin origin) {
  Items items;
  for (Text& part : parts) add_item(items, Value::text(std::move(part)));
  return Value::list(std::move(items), origin);
}

template <Text (*kChange)(const Text&)>
Value change(const Value& self, const Arguments& arguments) {
  arguments.bind("this method", {});
  return Value::text(kChange(text_of(self)));
}

template <Side kSide>
Value strip_side(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("strip", {"chars"});
  return Value::text(strip(text_of(self), kSide, bound.text_if_given(0)));
}

template <bool kFromRight>
Value split_at(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("split", {"sep", "maxsplit"});
  return list_of((kFromRight ? split_from_right : split)(text_of(self), bound.text_if_given(0),
                                                         bound.integer(1, -1)),
                 self.origin());
}

Value split_into_lines(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("splitlines", {"keepends"});
  return list_of(split_lines(text_of(self), bound.flag(0, false)), self.origin());
}

template <bool kAtEnd>
bool has_affix(const Text& text, const Text& affix) {
  return kAtEnd ? text.bytes().ends_with(affix.bytes()) : text.bytes().starts_with(affix.bytes());
}

template <bool kAtEnd>
Value test_affix(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind(kAtEnd ? "endswith" : "startswith", {"affix"});
  const List* list = bound.required(0).as_list();
  if (!list) return Value::boolean(has_affix<kAtEnd>(text_of(self), bound.text(0)));
  return Value::boolean(std::any_of(list->items.begin(), list->items.end(), [&](const Value& item) {
    return item.as_text() && has_affix<kAtEnd>(text_of(self), *item.as_text());
  }));
}

template <bool kAtEnd>
Value remove_affix(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind(kAtEnd ? "removesuffix" : "removeprefix", {"affix"});
  const Text& text = text_of(self);
  const Text& affix = bound.text(0);
  if (!has_affix<kAtEnd>(text, affix)) return self;
  return Value::text(kAtEnd ? text.part(0, text.size() - affix.size())
                            : text.part(affix.size(), text.size()));
}

Value replace_in(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("replace", {"old", "new", "count"});
  return Value::text(replace(text_of(self), bound.text(0), bound.text(1), bound.integer(2, -1)));
}

Value join_with(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("join", {"iterable"});
  std::vector<Text> parts;
  for (const Value& item : iterate(bound.required(0))) {
    const Text* text = item.as_text();
    if (!text) throw Problem("'join' joins strings, not " + item.kind());
    parts.push_back(*text);
  }
  return Value::text(join(text_of(self), parts));
}

template <bool kFromRight>
Value find_in(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("find", {"sub"});
  return Value::integer(find(text_of(self), bound.text(0), kFromRight));
}

Value count_in_text(const Value& self, const Arguments& arguments) {
  return Value::integer(count(text_of(self), arguments.bind("count", {"sub"}).text(0)));
}

Value partition_at(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("partition", {"sep"});
  const Text& text = text_of(self);
  const std::size_t found = text.bytes().find(bound.text(0).bytes());
  if (bound.text(0).empty()) throw Problem("split at an empty separator");
  if (found == std::string::npos)
    return Value::tuple({self, Value::text(Text()), Value::text(Text())});
  const std::size_t end = found + bound.text(0).size();
  return Value::tuple({Value::text(text.part(0, found)), Value::text(text.part(found, end)),
                       Value::text(text.part(end, text.size()))});
}

template <Class kClass>
Value test_class(const Value& self, const Arguments& arguments) {
  arguments.bind("this method", {});
  return Value::boolean(is_all(text_of(self), kClass));
}

template <bool (*kTest)(const Text&)>
Value test_case(const Value& self, const Arguments& arguments) {
  arguments.bind("this method", {});
  return Value::boolean(kTest(text_of(self)));
}

/// The argument for a field of `format`: the next one if the field is empty, else by position or by
/// name.
const Value& argument_called(const std::string& field, std::size_t& next,
                             const Arguments& arguments) {
  if (field.find_first_of("!:.[") != std::string::npos)
    throw Problem(fmt::format("the field '{{{}}}' of 'format' is not supported", field));
  if (const Value* named = arguments.find(field)) return *named;
  const bool is_place =
      field.size() < 4 && field.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t place = !is_place       ? arguments.positional.size()
                            : field.empty() ? next++
                                            : std::stoul(field);
  if (place >= arguments.positional.size())
    throw Problem(fmt::format("'format' has no argument for '{{{}}}'", field));
  return arguments.positional[place];
}

Value format_text(const Value& self, const Arguments& arguments) {
  const Text& text = text_of(self);
  const std::string& bytes = text.bytes();
  Text result;
  std::size_t next = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    result.append(text, at, brace);
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      result.append(text, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    const std::size_t close = bytes.find('}', brace);
    if (bytes[brace] == '}' || close == std::string::npos)
      throw Problem("a brace of 'format' without its other half");
    const std::string field = bytes.substr(brace + 1, close - brace - 1);
    result.append(to_text(argument_called(field, next, arguments)));
    at = close + 1;
  }
  return Value::text(std::move(result));
}

constexpr Method kMethods[] = {
    {"capitalize", change<capitalize>},
    {"count", count_in_text},
    {"endswith", test_affix<true>},
    {"find", find_in<false>},
    {"format", format_text},
    {"isalnum", test_class<Class::alnum>},
    {"isalpha", test_class<Class::alpha>},
    {"isdigit", test_class<Class::digit>},
    {"islower", test_case<is_lower>},
    {"isspace", test_class<Class::space>},
    {"isupper", test_case<is_upper>},
    {"join", join_with},
    {"lower", change<lower>},
    {"lstrip", strip_side<Side::left>},
    {"partition", partition_at},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace_in},
    {"rfind", find_in<true>},
    {"rsplit", split_at<true>},
    {"rstrip", strip_side<Side::right>},
    {"split", split_at<false>},
    {"splitlines", split_into_lines},
    {"startswith", test_affix<false>},
    {"strip", strip_side<Side::both>},
    {"title", change<title>},
    {"upper", change<upper>},
};

}  // namespace

const Method* find_text_method(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [&](const Method& method) { return method.name == name; });
  return found == std::end(kMethods) ? nullptr : found;
}

}  // namespace attacca::text::chat
