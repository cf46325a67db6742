// arguments.hpp: the arguments of a filter, a test, a method or a function, by position and by
// name. They are evaluated in evaluate.cpp.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/value.hpp"

namespace attacca::text::chat {

/// Arguments matched to parameters. An argument that was not given is a null pointer.
class Bound {
 public:
  Bound(std::string_view callee, std::vector<const Value*> values)
      : callee_(callee), values_(std::move(values)) {}

  const Value* operator[](std::size_t index) const { return values_[index]; }

  /// These throw a Problem if an argument is missing or of another kind.
  const Value& required(std::size_t index) const;
  const Text& text(std::size_t index) const;
  /// Null if the argument was not given or is None.
  const Text* text_if_given(std::size_t index) const;
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  bool flag(std::size_t index, bool otherwise) const;

 private:
  std::string_view callee_;
  std::vector<const Value*> values_;
};

struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument given under this name, or null.
  const Value* find(std::string_view name) const;
  /// Throws a Problem that names the callee if there are too many arguments or one has an unknown
  /// name. REQUIRES: the arguments and the callee's name outlive the result.
  Bound bind(std::string_view callee, std::initializer_list<std::string_view> parameters) const;
};

}  // namespace attacca::text::chat
