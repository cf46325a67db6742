// methods.cpp: the methods of mappings and lists. Methods that would change one throw, as in
// transformers' sandbox.
#include "text/chat/methods.hpp"

#include <algorithm>

namespace attacca::text::chat {
namespace {

Value items_of(const Value& self, const Arguments& arguments) {
  arguments.bind("items", {});
  Items pairs;
  for (const auto& [key, value] : self.as_dict()->entries)
    pairs.push_back(Value::tuple({key, value}));
  return Value::list(std::move(pairs), self.origin());
}

Value keys_of(const Value& self, const Arguments& arguments) {
  arguments.bind("keys", {});
  Items keys;
  for (const auto& entry : self.as_dict()->entries) keys.push_back(entry.first);
  return Value::list(std::move(keys), self.origin());
}

Value values_of(const Value& self, const Arguments& arguments) {
  arguments.bind("values", {});
  Items values;
  for (const auto& entry : self.as_dict()->entries) values.push_back(entry.second);
  return Value::list(std::move(values), self.origin());
}

Value get(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("get", {"key", "default"});
  if (const Value* found = self.as_dict()->find(bound.required(0))) return *found;
  return bound[1] ? *bound[1] : Value::none();
}

Value copy(const Value& self, const Arguments& arguments) {
  arguments.bind("copy", {});
  return self;
}

Value count_in(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("count", {"value"});
  const Items& items = self.as_list()->items;
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(item, bound.required(0));
  }));
}

Value index_in(const Value& self, const Arguments& arguments) {
  const Bound bound = arguments.bind("index", {"value"});
  const Items& items = self.as_list()->items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(item, bound.required(0));
  });
  if (found == items.end()) throw Problem("'index' of what is not in the list");
  return Value::integer(found - items.begin());
}

Value refuse(const Value& self, const Arguments&) {
  throw Problem(self.kind() +
                " cannot be changed; make another one with 'set', as in list + [item]");
}

constexpr Method kDictMethods[] = {
    {"clear", refuse},  {"copy", copy},        {"get", get},        {"items", items_of},
    {"keys", keys_of},  {"pop", refuse},       {"popitem", refuse}, {"setdefault", refuse},
    {"update", refuse}, {"values", values_of},
};
constexpr Method kListMethods[] = {
    {"append", refuse}, {"clear", refuse},   {"copy", copy},     {"count", count_in},
    {"extend", refuse}, {"index", index_in}, {"insert", refuse}, {"pop", refuse},
    {"remove", refuse}, {"reverse", refuse}, {"sort", refuse},
};

template <std::size_t kCount>
const Method* find_in(const Method (&methods)[kCount], std::string_view name) {
  const auto* found = std::find_if(std::begin(methods), std::end(methods),
                                   [&](const Method& method) { return method.name == name; });
  return found == std::end(methods) ? nullptr : found;
}

}  // namespace

const Method* find_method(const Value& object, std::string_view name) {
  if (object.as_text()) return find_text_method(name);
  if (object.as_dict()) return find_in(kDictMethods, name);
  if (object.as_list()) return find_in(kListMethods, name);
  return nullptr;
}

}  // namespace attacca::text::chat
