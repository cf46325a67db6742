// regex.hpp: turns regular expressions into automata over code points. The syntax is a subset of
// ECMA-262's with the flag u; docs/grammar.md lists it. What no finite automaton can do, such as
// backreferences, is refused by name.
#pragma once

#include <string_view>

#include "grammar/automaton.hpp"

namespace attacca::grammar {

/// How an expression relates to a text.
enum class Match {
  whole,     // the expression describes all of the text
  anywhere,  // it describes some part of the text, as `pattern` of a JSON schema does
};

/// Over code points. Throws BadArgument that names the offset and the construct.
Dfa regex_automaton(std::string_view pattern, Match match, Budget& budget);

}  // namespace attacca::grammar
