// text_filters.cpp: the filters that return text, and find_filter.
#include <fmt/core.h>

#include <algorithm>

#include "text/chat/filters.hpp"
#include "text/chat/strings.hpp"
#include "text/chat/to_json.hpp"

namespace attacca::text::chat {
namespace {

template <Text (*kChange)(const Text&)>
Value change(Budget&, const Value& input, const Arguments& arguments) {
  arguments.bind("this filter", {});
  return Value::text(kChange(to_text(input)));
}

Text as_it_is(const Text& text) { return text; }

Value trim(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("trim", {"chars"});
  return Value::text(strip(to_text(input), Side::both, bound.text_if_given(0)));
}

Value replace_in(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("replace", {"old", "new", "count"});
  return Value::text(replace(to_text(input), to_text(bound.required(0)), to_text(bound.required(1)),
                             bound.integer(2, -1)));
}

Text spaces(std::int64_t count) { return repeat(Text(" "), count); }

Value indent_lines(Budget&, const Value& input, const Arguments& arguments) {
  const Bound bound = arguments.bind("indent", {"width", "first", "blank"});
  const Text* prefix = bound[0] ? bound[0]->as_text() : nullptr;
  return Value::text(indent(to_text(input), prefix ? *prefix : spaces(bound.integer(0, 4)),
                            bound.flag(1, false), bound.flag(2, false)));
}

Value to_json_text(Budget& budget, const Value& input, const Arguments& arguments) {
  const Bound bound =
      arguments.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  // The first parameter of jinja's own `tojson` is `indent`, that of transformers' `ensure_ascii`.
  JsonStyle style;
  style.is_ascii = bound.flag(0, false);
  style.is_sorted = bound.flag(3, false);
  if (bound[1] && !bound[1]->is_none()) {
    const Text* text = bound[1]->as_text();
    style.indent = text ? *text : spaces(bound.integer(1, 0));
    style.between_items = Text(",");
  }
  if (bound[2] && !bound[2]->is_none()) {
    const List* pair = bound[2]->as_list();
    if (!pair || pair->items.size() != 2)
      throw Problem("'separators' of 'tojson' is a pair of strings, not " + bound[2]->kind());
    style.between_items = to_text(pair->items[0]);
    style.after_key = to_text(pair->items[1]);
  }
  budget.spend_steps(input.extent().weight);
  return Value::text(to_json(input, style));
}

constexpr Filter kFilters[] = {
    {"capitalize", change<capitalize>},
    {"e", change<escape_html>},
    {"escape", change<escape_html>},
    {"indent", indent_lines},
    {"lower", change<lower>},
    {"replace", replace_in},
    {"safe", change<as_it_is>},
    {"string", change<as_it_is>},
    {"title", change<title_words>},
    {"tojson", to_json_text},
    {"trim", trim},
    {"upper", change<upper>},
};

}  // namespace

const Filter* find_text_filter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const Filter& filter) { return filter.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

const Filter* find_filter(std::string_view name) {
  if (const Filter* found = find_text_filter(name)) return found;
  if (const Filter* found = find_list_filter(name)) return found;
  return find_number_filter(name);
}

}  // namespace attacca::text::chat
