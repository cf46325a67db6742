// regex_syntax.hpp: a regular expression as a tree, and its parser.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/code_set.hpp"

namespace attacca::grammar {

inline constexpr std::uint32_t kUnbounded = ~std::uint32_t{0};

struct RegexNode {
  enum class Kind { characters, sequence, choice, repeat, begin, end };
  Kind kind = Kind::sequence;
  CodeSet set = {};                   // characters: any one of them
  std::vector<RegexNode> parts = {};  // sequence, choice; repeat has one
  std::uint32_t least = 0, most = 0;  // repeat; most may be kUnbounded
};

/// Throws BadArgument that names the offset and the construct.
RegexNode parse_regex(std::string_view pattern);

}  // namespace attacca::grammar
