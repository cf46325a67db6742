// to_json.hpp: prints values for the filter `tojson`, as Python's json.dumps does with
// ensure_ascii=False.
#pragma once

#include <optional>

#include "text/chat/value.hpp"

namespace attacca::text::chat {

struct JsonStyle {
  std::optional<Text> indent;  // of one level; none: all on one line
  Text between_items{", "};
  Text after_key{": "};
  bool is_ascii = false;
  bool is_sorted = false;
};

/// Throws a Problem for a value that JSON does not have.
Text to_json(const Value& value, const JsonStyle& style);

}  // namespace attacca::text::chat
