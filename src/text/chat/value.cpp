// value.cpp: makes values, converts them from JSON and bounds their depth and size.
#include "text/chat/value.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "text/chat/strings.hpp"

namespace attacca::text::chat {
namespace {

/// The extent of a container around `inside`: one level more.
Extent wrapped(Extent inside) {
  if (inside.depth >= kMaxValueDepth)
    throw Problem(fmt::format("values nest deeper than {} levels", kMaxValueDepth));
  if (inside.weight > kMaxValueWeight)
    throw Problem(fmt::format("a value of more than {} values", kMaxValueWeight));
  return {inside.depth + 1, inside.weight};
}

void include(Extent& all, const Value& value) {
  const Extent one = value.extent();
  all.depth = std::max(all.depth, one.depth);
  all.weight += one.weight;
}

Value convert(const nlohmann::ordered_json& json, Origin origin, unsigned level) {
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::boolean:
      return Value::boolean(json.get<bool>(), origin);
    case Type::number_integer:
      return Value::integer(json.get<std::int64_t>(), origin);
    case Type::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return Value::real(static_cast<double>(number), origin);
      return Value::integer(static_cast<std::int64_t>(number), origin);
    }
    case Type::number_float:
      return Value::real(json.get<double>(), origin);
    case Type::string:
      return Value::text(Text(json.get_ref<const std::string&>(), origin));
    case Type::array: {
      wrapped({level, 0});
      Items items;
      for (const auto& item : json) add_item(items, convert(item, origin, level + 1));
      return Value::list(std::move(items), origin);
    }
    case Type::object: {
      wrapped({level, 0});
      Entries entries;
      for (const auto& [key, item] : json.items())
        entries.emplace_back(Value::text(Text(key, origin)), convert(item, origin, level + 1));
      return Value::dict(std::move(entries), origin);
    }
    default:
      return Value::none(origin);
  }
}

}  // namespace

const Value* Dict::find(const Value& key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return equal(entry.first, key); });
  return found == entries.end() ? nullptr : &found->second;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    const Text* text = entry.first.as_text();
    return text && text->bytes() == key;
  });
  return found == entries.end() ? nullptr : &found->second;
}

Value::Value() = default;
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value Value::undefined(std::string why) {
  return {Undefined{std::make_shared<const std::string>(std::move(why))}, Origin::author};
}

Value Value::text(Text text) {
  const Origin origin = text.origin();
  return {std::make_shared<const Text>(std::move(text)), origin};
}

Value Value::sequence(Items items, bool is_tuple, Origin origin) {
  const Extent extent = extent_around(items);
  return {std::make_shared<const List>(List{std::move(items), is_tuple, extent}), origin};
}

Value Value::dict(Entries entries, Origin origin) {
  Extent inside;
  for (const auto& [key, value] : entries) {
    include(inside, key);
    include(inside, value);
  }
  const Extent extent = wrapped(inside);
  return {std::make_shared<const Dict>(Dict{std::move(entries), extent}), origin};
}

Value Value::callable(std::string name, std::function<Value(const Arguments&)> call,
                      const Value* held) {
  const Extent extent = wrapped(held ? held->extent() : Extent{});
  return {std::make_shared<const Callable>(Callable{std::move(name), std::move(call), extent}),
          Origin::author};
}

Value Value::from_json(const nlohmann::ordered_json& json, Origin origin) {
  return convert(json, origin, 0);
}

Origin Value::origin() const {
  const Text* text = as_text();
  return text ? text->origin() : origin_;
}

Extent Value::extent() const {
  if (const List* list = as_list()) return list->extent;
  if (const Dict* dict = as_dict()) return dict->extent;
  if (const Loop* loop = as_loop()) return loop->extent;
  if (const Callable* callable = as_callable()) return callable->extent;
  return {};
}

std::string Value::kind() const {
  static constexpr const char* kNames[] = {"undefined",   "none",     "a boolean", "an integer",
                                           "a float",     "a string", "a list",    "a mapping",
                                           "a namespace", "a loop",   "a function"};
  const List* list = as_list();
  return list && list->is_tuple ? "a tuple" : kNames[data_.index()];
}

std::string Value::why() const {
  const auto* undefined = std::get_if<Undefined>(&data_);
  return undefined && undefined->why ? *undefined->why : "a value is not defined";
}

std::size_t Value::cost() const {
  constexpr std::size_t kOne = sizeof(Value) + 64;
  if (const Text* text = as_text())
    return kOne + text->size() + text->literal().size() * sizeof(TextRange);
  if (const List* list = as_list()) return kOne * (1 + list->items.size());
  if (const Dict* dict = as_dict()) return kOne * (1 + 2 * dict->entries.size());
  return kOne;
}

Extent extent_around(const Items& items) {
  Extent inside;
  for (const Value& item : items) include(inside, item);
  return wrapped(inside);
}

void add_item(Items& items, Value item) {
  if (items.size() == kMaxItems)
    throw Problem(fmt::format("a list of more than {} items", kMaxItems));
  items.push_back(std::move(item));
}

Items iterate(const Value& value) {
  Items items;
  if (const List* list = value.as_list()) {
    items = list->items;
  } else if (const Dict* dict = value.as_dict()) {
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (const Text* text = value.as_text()) {
    for (Text& one : characters(*text)) items.push_back(Value::text(std::move(one)));
  } else if (!value.is_undefined()) {
    throw Problem(value.kind() + " cannot be looped over");
  }
  return items;
}

}  // namespace attacca::text::chat
