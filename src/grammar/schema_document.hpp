// schema_document.hpp: a JSON schema as parsed, and the places in it that references lead to.
// Include it in sources only: nlohmann's header compiles slowly.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/limits.hpp"

namespace attacca::grammar {

/// A subschema and its JSON pointer, for messages. The document outlives it.
struct Place {
  const nlohmann::ordered_json* schema = nullptr;
  std::string pointer = "#";

  Place at(std::string_view key) const;
  /// The same if the value is already found.
  Place at(std::string_view key, const nlohmann::ordered_json& value) const;
  Place at(std::string_view key, std::size_t index) const;
};

/// Throws BadArgument: "schema: keyword 'not' at '#/items/not': ...".
template <class... Arguments>
[[noreturn]] void refuse(const Place& place, std::string_view keyword,
                         fmt::format_string<Arguments...> text, Arguments&&... arguments);
[[noreturn]] void refuse_with(const Place& place, std::string_view keyword, std::string_view why);

class SchemaDocument {
 public:
  explicit SchemaDocument(std::string_view text);

  Place root() const { return {&root_, "#"}; }
  /// The place that the `$ref` of a schema names.
  Place resolve(const Place& schema) const;

 private:
  nlohmann::ordered_json root_;
};

template <class... Arguments>
void refuse(const Place& place, std::string_view keyword, fmt::format_string<Arguments...> text,
            Arguments&&... arguments) {
  refuse_with(place, keyword, fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace attacca::grammar
