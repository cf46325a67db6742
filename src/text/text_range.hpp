// text_range.hpp: a half-open range of bytes of a text. It does not hold the text.
#pragma once

#include <cstddef>

namespace attacca::text {

struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

}  // namespace attacca::text
