// to_json.hpp: the filter `tojson`, which prints as Python's json.dumps does with
// ensure_ascii=False.
#pragma once

#include <optional>

#include "text/chat/value.hpp"

namespace attacca::text::chat {

struct JsonStyle {
  std::optional<Text> indent;  // for one level; without it all is on one line
  Text between_items{", "};
  Text after_key{": "};
  bool is_ascii = false;
  bool is_sorted = false;
};

/// Throws a Problem for what JSON cannot say.
Text to_json(const Value& value, const JsonStyle& style);

}  // namespace attacca::text::chat
