// methods.hpp: looks up the methods of strings, lists and mappings by name.
#pragma once

#include <string_view>

#include "text/chat/arguments.hpp"

namespace attacca::text::chat {

struct Method {
  std::string_view name;
  Value (*call)(const Value& self, const Arguments& arguments);
};

/// Null if this kind of value has no such method.
const Method* find_method(const Value& object, std::string_view name);

// text_methods.cpp
const Method* find_text_method(std::string_view name);

}  // namespace attacca::text::chat
