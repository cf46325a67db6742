// json_reason.hpp: what an exception of nlohmann's JSON library says, for messages of our own.
#pragma once

#include <string_view>

namespace attacca {

/// Without the tag in brackets and, where parsing failed, the place in lines and columns:
/// "[json.exception.parse_error.101] parse error at line 1, column 1: what is wrong".
inline std::string_view json_reason(std::string_view what) {
  constexpr std::string_view kTagEnd = "] ", kPlaceEnd = ": ";
  if (const auto at = what.find(kTagEnd); what.starts_with('[') && at != what.npos)
    what.remove_prefix(at + kTagEnd.size());
  if (const auto at = what.find(kPlaceEnd); what.starts_with("parse error") && at != what.npos)
    what.remove_prefix(at + kPlaceEnd.size());
  return what;
}

}  // namespace attacca
