// tests.hpp: the tests a template may use after `is`, by name.
#pragma once

#include <string_view>

#include "text/chat/arguments.hpp"

namespace attacca::text::chat {

struct Test {
  std::string_view name;
  bool (*holds)(const Value& value, const Arguments& arguments);
};

/// Null where there is no such test.
const Test* find_test(std::string_view name);

}  // namespace attacca::text::chat
