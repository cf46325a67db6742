// list_filters.cpp: the filters that go through the items of a container.
#include <fmt/core.h>

#include <algorithm>

#include "text/chat/filters.hpp"
#include "text/chat/operators.hpp"
#include "text/chat/predicates.hpp"
#include "text/chat/strings.hpp"

namespace attacca::text::chat {
namespace {

Items items_of(Budget& budget, const Value& input) {
  Items items = iterate(input);
  budget.spend_steps(1 + items.size());
  return items;
}

/// The item's attribute at `path`, or the item itself if there is no path.
Value key_of(const Value& item, const Value* path) {
  return path && !path->is_none() ? path_of(item, *path) : item;
}

/// The value to compare: text in lower case unless `has_case`.
Value folded(Value value, bool has_case) {
  const Text* text = value.as_text();
  return text && !has_case ? Value::text(lower(*text)) : value;
}

Value join_items(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("join", {"d", "attribute"});
  std::vector<Text> parts;
  for (const Value& item : items_of(budget, input))
    parts.push_back(to_text(key_of(item, bound[1])));
  return Value::text(join(bound[0] ? to_text(*bound[0]) : Text(), parts));
}

Value first_item(Budget& budget, const Value& input, const Arguments& arguments) {
  arguments.bind("first", {});
  const Items items = items_of(budget, input);
  return items.empty() ? Value::undefined("'first' of nothing") : items.front();
}

Value last_item(Budget& budget, const Value& input, const Arguments& arguments) {
  arguments.bind("last", {});
  const Items items = items_of(budget, input);
  return items.empty() ? Value::undefined("'last' of nothing") : items.back();
}

Value to_list(Budget& budget, const Value& input, const Arguments& arguments) {
  arguments.bind("list", {});
  return Value::list(items_of(budget, input), input.origin());
}

Value pair_of(const std::pair<Value, Value>& entry) {
  return Value::tuple({entry.first, entry.second});
}

Value entries_of(Budget&, const Value& input, const Arguments& arguments) {
  arguments.bind("items", {});
  const Dict* dict = input.as_dict();
  if (!dict && !input.is_undefined()) throw Problem("'items' of " + input.kind());
  Items pairs;
  if (dict)
    std::transform(dict->entries.begin(), dict->entries.end(), std::back_inserter(pairs), pair_of);
  return Value::list(std::move(pairs), input.origin());
}

Value reverse_items(Budget& budget, const Value& input, const Arguments& arguments) {
  arguments.bind("reverse", {});
  if (const Text* text = input.as_text()) return Value::text(reversed(*text));
  Items items = items_of(budget, input);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items), input.origin());
}

void sort_by(Budget& budget, Items& items, const std::function<Value(const Value&)>& key,
             bool is_descending) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) keyed.emplace_back(key(item), std::move(item));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    budget.spend_steps(std::min(a.first.extent().weight, b.first.extent().weight));
    return is_descending ? is_less(b.first, a.first) : is_less(a.first, b.first);
  });
  for (std::size_t index = 0; index < items.size(); ++index) items[index] = keyed[index].second;
}

Value sort_items(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("sort", {"reverse", "case_sensitive", "attribute"});
  Items items = items_of(budget, input);
  sort_by(
      budget, items,
      [&](const Value& item) { return folded(key_of(item, bound[2]), bound.flag(1, false)); },
      bound.flag(0, false));
  return Value::list(std::move(items), input.origin());
}

Value sort_dict(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("dictsort", {"case_sensitive", "by", "reverse"});
  const Value all = entries_of(budget, input, {});
  Items pairs = all.as_list()->items;
  const std::string by = bound[1] ? bound.text(1).bytes() : "key";
  if (by != "key" && by != "value")
    throw Problem(fmt::format("'dictsort' by '{}'; use key or value", by));
  sort_by(
      budget, pairs,
      [&](const Value& pair) {
        return folded(pair.as_list()->items[by == "key" ? 0 : 1], bound.flag(0, false));
      },
      bound.flag(2, false));
  return Value::list(std::move(pairs), input.origin());
}

Value unique_items(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("unique", {"case_sensitive", "attribute"});
  Items kept;
  Items keys;
  for (const Value& item : items_of(budget, input)) {
    Value key = folded(key_of(item, bound[1]), bound.flag(0, false));
    budget.spend_steps(keys.size() * key.extent().weight);
    const bool is_known = std::any_of(keys.begin(), keys.end(),
                                      [&](const Value& known) { return equal(known, key); });
    if (is_known) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return Value::list(std::move(kept), input.origin());
}

template <bool kIsMax>
Value extreme(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind(kIsMax ? "max" : "min", {"case_sensitive", "attribute"});
  const Items items = items_of(budget, input);
  const auto less = [&](const Value& a, const Value& b) {
    return is_less(folded(key_of(a, bound[1]), bound.flag(0, false)),
                   folded(key_of(b, bound[1]), bound.flag(0, false)));
  };
  const auto found = kIsMax ? std::max_element(items.begin(), items.end(), less)
                            : std::min_element(items.begin(), items.end(), less);
  return found == items.end() ? Value::undefined("the 'min' or 'max' of nothing") : *found;
}

/// The arguments without the first `skipped`.
Arguments rest_of(const Arguments& arguments, std::size_t skipped) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(skipped),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

const std::string& name_at(const Arguments& arguments, std::size_t index, const char* filter) {
  const Text* name =
      index < arguments.positional.size() ? arguments.positional[index].as_text() : nullptr;
  if (!name)
    throw Problem(fmt::format("argument {} of '{}' is a name in quotes", index + 1, filter));
  return name->bytes();
}

Value map_items(Budget& budget, const Value& input, const Arguments& arguments) {
  Items items = items_of(budget, input);
  if (arguments.positional.empty()) {
    const Bound bound = arguments.bind("map", {"attribute", "default"});
    for (Value& item : items) {
      item = path_of(item, bound.required(0));
      if (item.is_undefined() && bound[1]) item = *bound[1];
    }
    return Value::list(std::move(items), input.origin());
  }
  const std::string& name = name_at(arguments, 0, "map");
  const Filter* filter = find_filter(name);
  if (!filter) throw Problem(fmt::format("the filter '{}' is not supported", name));
  const Arguments rest = rest_of(arguments, 1);
  const Budget::Level level(budget);  // map(map(...)) recurses
  for (Value& item : items) item = budget.spend_for(filter->apply(budget, item, rest));
  return Value::list(std::move(items), input.origin());
}

/// select, reject, selectattr and rejectattr: the items for which a test holds or does not hold.
template <bool kByAttribute, bool kWanted>
Value choose(Budget& budget, const Value& input, const Arguments& arguments) {
  constexpr std::size_t kFirst = kByAttribute ? 1 : 0;
  if (kByAttribute) name_at(arguments, 0, "selectattr' or 'rejectattr");
  const Predicate* predicate = nullptr;
  Arguments rest;
  if (arguments.positional.size() > kFirst) {
    const std::string& name = name_at(arguments, kFirst, "select' or 'reject");
    predicate = find_predicate(name);
    if (!predicate) throw Problem(fmt::format("the test '{}' is not supported", name));
    rest = rest_of(arguments, kFirst + 1);
  }
  Items kept;
  for (Value& item : items_of(budget, input)) {
    const Value value = kByAttribute ? path_of(item, arguments.positional[0]) : item;
    budget.spend_steps(value.extent().weight);
    if ((predicate ? predicate->holds(value, rest) : is_true(value)) == kWanted)
      kept.push_back(std::move(item));
  }
  return Value::list(std::move(kept), input.origin());
}

constexpr Filter kFilters[] = {
    {"dictsort", sort_dict},
    {"first", first_item},
    {"items", entries_of},
    {"join", join_items},
    {"last", last_item},
    {"list", to_list},
    {"map", map_items},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", choose<false, false>},
    {"rejectattr", choose<true, false>},
    {"reverse", reverse_items},
    {"select", choose<false, true>},
    {"selectattr", choose<true, true>},
    {"sort", sort_items},
    {"unique", unique_items},
};

}  // namespace

const Filter* find_list_filter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const Filter& filter) { return filter.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

}  // namespace attacca::text::chat
