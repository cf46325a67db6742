// arguments.cpp: matches arguments to parameters and checks their kinds.
#include "text/chat/arguments.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace attacca::text::chat {

const Value& Bound::required(std::size_t index) const {
  if (!values_[index]) throw Problem(fmt::format("'{}' lacks its argument {}", callee_, index + 1));
  return *values_[index];
}

const Text& Bound::text(std::size_t index) const {
  const Value& value = required(index);
  if (const Text* text = value.as_text()) return *text;
  throw Problem(fmt::format("argument {} of '{}' is {}, not a string", index + 1, callee_,
                            value.is_undefined() ? value.why() : value.kind()));
}

const Text* Bound::text_if_given(std::size_t index) const {
  return values_[index] && !values_[index]->is_none() ? &text(index) : nullptr;
}

std::int64_t Bound::integer(std::size_t index, std::int64_t otherwise) const {
  if (!values_[index] || values_[index]->is_none()) return otherwise;
  if (const std::int64_t* number = values_[index]->as_integer()) return *number;
  if (const bool* boolean = values_[index]->as_boolean()) return *boolean ? 1 : 0;
  throw Problem(fmt::format("argument {} of '{}' is {}, not an integer", index + 1, callee_,
                            values_[index]->kind()));
}

bool Bound::flag(std::size_t index, bool otherwise) const {
  return values_[index] ? is_true(*values_[index]) : otherwise;
}

const Value* Arguments::find(std::string_view name) const {
  for (const auto& argument : named)
    if (argument.first == name) return &argument.second;
  return nullptr;
}

Bound Arguments::bind(std::string_view callee,
                      std::initializer_list<std::string_view> parameters) const {
  if (positional.size() > parameters.size())
    throw Problem(fmt::format("'{}' takes at most {} arguments, not {}", callee, parameters.size(),
                              positional.size()));
  std::vector<const Value*> values(parameters.size());
  for (std::size_t index = 0; index < positional.size(); ++index)
    values[index] = &positional[index];
  for (const auto& [name, value] : named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end())
      throw Problem(fmt::format("'{}' takes no argument called '{}'", callee, name));
    const Value*& slot = values[static_cast<std::size_t>(found - parameters.begin())];
    if (slot) throw Problem(fmt::format("'{}' was given '{}' twice", callee, name));
    slot = &value;
  }
  return {callee, std::move(values)};
}

}  // namespace attacca::text::chat
