// predicates.hpp: looks up the predicates that may follow `is` in a template, which jinja calls
// tests. How they are parsed and applied is in parse_expression.cpp and evaluate.cpp.
#pragma once

#include <string_view>

#include "text/chat/arguments.hpp"

namespace attacca::text::chat {

struct Predicate {
  std::string_view name;
  bool (*holds)(const Value& value, const Arguments& arguments);
};

/// Null if there is no such test.
const Predicate* find_predicate(std::string_view name);

}  // namespace attacca::text::chat
