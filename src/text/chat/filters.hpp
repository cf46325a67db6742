// filters.hpp: looks up jinja's filters by name. The filters are in text_filters.cpp,
// list_filters.cpp and number_filters.cpp.
#pragma once

#include <string_view>

#include "text/chat/arguments.hpp"
#include "text/chat/budget.hpp"

namespace attacca::text::chat {

struct Filter {
  std::string_view name;
  Value (*apply)(Budget& budget, const Value& input, const Arguments& arguments);
};

/// Null if there is no such filter.
const Filter* find_filter(std::string_view name);

// One lookup for each file of filters; find_filter asks them all.
const Filter* find_text_filter(std::string_view name);
const Filter* find_list_filter(std::string_view name);
const Filter* find_number_filter(std::string_view name);

}  // namespace attacca::text::chat
