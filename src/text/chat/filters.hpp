// filters.hpp: the filters a template may use, by name.
#pragma once

#include <string_view>

#include "text/chat/arguments.hpp"
#include "text/chat/budget.hpp"

namespace attacca::text::chat {

struct Filter {
  std::string_view name;
  Value (*apply)(Budget& budget, const Value& input, const Arguments& arguments);
};

/// Null where there is no such filter.
const Filter* find_filter(std::string_view name);

// The filters, by what they work on; each searched by find_filter.
const Filter* find_text_filter(std::string_view name);
const Filter* find_list_filter(std::string_view name);
const Filter* find_number_filter(std::string_view name);

}  // namespace attacca::text::chat
