// without_numbers.hpp: the common name of things that differ only in numbers: layers, steps.
#pragma once

#include <algorithm>
#include <string>

namespace attacca::core {

/// "layer 3 norm" becomes "layer # norm".
inline std::string without_numbers(const std::string& name) {
  std::string text;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find(' ', at), name.size());
    const bool is_number = end > at && name.find_first_not_of("0123456789", at) >= end;
    text += is_number ? "#" : name.substr(at, end - at);
    if (end < name.size()) text += ' ';
    at = end + 1;
  }
  return text;
}

}  // namespace attacca::core
