// in_quotes.hpp: names and texts out of files, made safe for a message: what is not printable ASCII
// is escaped, what is long is cut.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace attacca {

inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string result = "'";
  for (const char letter : text.substr(0, kMost)) {
    if (letter >= ' ' && letter <= '~')
      result += letter;
    else
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
  }
  return result + (text.size() > kMost ? "…'" : "'");
}

}  // namespace attacca
